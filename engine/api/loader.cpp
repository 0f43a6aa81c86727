// SPDX-License-Identifier: Apache-2.0

// The public API: each call becomes a command that is posted to the engine thread.

#include <boost/asio/error.hpp>
#include <ringload/loader.hpp>

#include "base/printable.hpp"
#include "load/job.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

// Runs `command(waiting)` in the engine thread. If the engine is closed, completes `waiting` as
// aborted.
template <class T, class Command>
void post_or_abort(engine& loader_engine, const std::string& source,
                   std::unique_ptr<operation<T>> waiting, Command command) {
  struct packed {
    std::unique_ptr<operation<T>> waiting;
    Command command;
    void operator()() { command(std::move(waiting)); }
  };
  packed packed_command{std::move(waiting), std::move(command)};
  if (loader_engine.post(std::move(packed_command))) return;
  const fault destroyed(boost::asio::error::operation_aborted, printable_path(source),
                        "the loader was destroyed");
  packed_command.waiting->complete(to_exception(destroyed), T());
}

}  // namespace

void begin_load(const std::shared_ptr<engine>& loader_engine, load_request request,
                std::unique_ptr<operation<model>> waiting) {
  if (request.options.window_bytes > 0) {
    const fault refused(errc::invalid_options, "load_options::window_bytes",
                        "load_async takes no window, use start_async with window_bytes");
    waiting->complete(to_exception(refused), model());
    return;
  }
  auto load = std::make_shared<job>(loader_engine, std::move(request));
  post_or_abort(*loader_engine, load->source, std::move(waiting),
                [load](std::unique_ptr<operation<model>> w) {
                  load->delivery.hand_out_once();
                  load->delivery.await_finish(std::move(w));
                  run_job(load);
                });
}

void begin_start(const std::shared_ptr<engine>& loader_engine, load_request request,
                 std::unique_ptr<operation<load_operation>> waiting) {
  auto load = std::make_shared<job>(loader_engine, std::move(request));
  post_or_abort(*loader_engine, load->source, std::move(waiting),
                [load](std::unique_ptr<operation<load_operation>> w) {
                  load->delivery.await_start(std::move(w));
                  run_job(load);
                });
}

// Opening a checkpoint is a load that selects no tensor.
void begin_open(const std::shared_ptr<engine>& loader_engine, source_name source,
                open_options options, std::unique_ptr<operation<checkpoint>> waiting) {
  load_request request(std::move(source), selection().names({}), load_options());
  request.options.strictness = options.strictness;
  request.independent_files = options.independent_files;
  request.options.nameless = options.nameless;
  auto load = std::make_shared<job>(loader_engine, std::move(request));
  post_or_abort(*loader_engine, load->source, std::move(waiting),
                [load](std::unique_ptr<operation<checkpoint>> w) {
                  load->delivery.hand_out_once();
                  load->delivery.await_open(std::move(w));
                  run_job(load);
                });
}

void begin_fill(const std::shared_ptr<engine>& loader_engine, load_request request,
                std::unique_ptr<operation<fill_result>> waiting) {
  auto load = std::make_shared<job>(loader_engine, std::move(request));
  post_or_abort(*loader_engine, load->source, std::move(waiting),
                [load](std::unique_ptr<operation<fill_result>> w) {
                  load->delivery.await_fill(std::move(w));
                  run_job(load);
                });
}

void begin_copy(const std::shared_ptr<engine>& loader_engine, copy_request request,
                std::unique_ptr<operation<tensor>> waiting) {
  if (!request.from) {
    const fault empty_handle(errc::no_such_tensor, "copy_async",
                             "the tensor handle is empty, expected a loaded tensor");
    waiting->complete(to_exception(empty_handle), tensor());
    return;
  }
  auto load = std::make_shared<job>(loader_engine, load_request(std::move(request)));
  post_or_abort(*loader_engine, load->source, std::move(waiting),
                [load](std::unique_ptr<operation<tensor>> w) {
                  load->delivery.hand_out_once();
                  load->delivery.await_copy(std::move(w));
                  run_job(load);
                });
}

void await_tensor(const std::shared_ptr<job>& load, std::string name,
                  std::unique_ptr<operation<tensor>> waiting) {
  const auto t = load->named().find(name);
  if (!t) {
    const fault unknown(errc::no_such_tensor,
                        printable_path(load->source) + ": " + tensor_place(name));
    waiting->complete(to_exception(unknown), tensor());
    return;
  }
  post_or_abort(*load->the_engine, load->source, std::move(waiting),
                [load, t = *t](std::unique_ptr<operation<tensor>> w) {
                  load->delivery.await_tensor(t, std::move(w));
                });
}

void await_next(const std::shared_ptr<job>& load,
                std::unique_ptr<operation<std::optional<tensor>>> waiting) {
  post_or_abort(*load->the_engine, load->source, std::move(waiting),
                [load](std::unique_ptr<operation<std::optional<tensor>>> w) {
                  load->delivery.await_next(std::move(w));
                });
}

void await_finish(const std::shared_ptr<job>& load, std::unique_ptr<operation<model>> waiting) {
  post_or_abort(
      *load->the_engine, load->source, std::move(waiting),
      [load](std::unique_ptr<operation<model>> w) { load->delivery.await_finish(std::move(w)); });
}

}  // namespace detail

load_operation& load_operation::operator=(load_operation&& source) noexcept {
  load_operation before(std::move(*this));
  job_ = std::move(source.job_);
  return *this;
}

load_operation::~load_operation() { cancel(); }

load_stats load_operation::progress() const { return job_->progress(); }

std::vector<file_stats> load_operation::progress_of_files() const { return job_->per_file().now(); }

void load_operation::cancel() noexcept {
  if (job_) job_->cancel();
}

const ringload::catalog& load_operation::catalog() const noexcept {
  return job_->named().catalog();
}

loader::loader(ringload::device target, const loader_options& within,
               std::vector<extension> extensions, const allocation_log& log)
    : loader(std::vector{target}, within, std::move(extensions), log) {}

loader::loader(std::vector<ringload::device> targets, const loader_options& within,
               std::vector<extension> extensions, const allocation_log& log)
    : engine_(detail::engine::make(std::move(targets), within, {}, std::move(extensions), log)) {}

loader::~loader() { engine_->close(); }

ringload::device loader::device() const noexcept { return engine_->devices.listed().front(); }

const std::vector<ringload::device>& loader::devices() const noexcept {
  return engine_->devices.listed();
}

memory_use loader::memory() const {
  const detail::memory_account& tensors = *engine_->memory.tensors;
  const detail::memory_account& mapped = *engine_->memory.mapped;
  load_stats s;
  engine_->fill_stats(s);
  memory_use now;
  now.tensor_bytes = tensors.bytes();
  now.tensor_bytes_peak = tensors.bytes_peak();
  now.tensor_allocations = tensors.allocations();
  now.pinned_bytes = s.pinned_bytes_peak;
  now.mapped_bytes = mapped.bytes();
  now.mappings = mapped.allocations();
  return now;
}

load_stats loader::stats() const {
  load_stats s;
  engine_->fill_stats(s);
  return s;
}

}  // namespace ringload::inline v0
