// SPDX-License-Identifier: Apache-2.0

// Implements the asynchronous functions of the public classes. Each call posts a command to the
// engine thread.

#include <boost/asio/error.hpp>
#include <ringload/loader.hpp>

#include "base/printable.hpp"
#include "load/job.hpp"
#include "request/request.hpp"
#include "runtime/engine.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

// Runs `command(load, waiting)` in the engine thread. If the loader was destroyed, `waiting` fails
// with operation_aborted. In this case, the reference to the load is released before the
// completion, because the load keeps the owners of the caller's memory alive.
template <class T, class Command>
void post_or_abort(std::shared_ptr<job> load, std::unique_ptr<operation<T>> waiting,
                   Command command) {
  struct packed {
    std::shared_ptr<job> load;
    std::unique_ptr<operation<T>> waiting;
    Command command;
    void operator()() { command(load, std::move(waiting)); }
  };
  const auto loader_engine = load->the_engine;
  packed packed_command{std::move(load), std::move(waiting), std::move(command)};
  if (loader_engine->post(std::move(packed_command))) return;
  const fault destroyed(boost::asio::error::operation_aborted,
                        printable_path(packed_command.load->source), "the loader was destroyed");
  packed_command.load.reset();
  packed_command.waiting->fail(destroyed);
}

}  // namespace

void begin_load(const std::shared_ptr<engine>& loader_engine, const source& origin,
                load_options options, std::unique_ptr<operation<model>> waiting) {
  auto load = std::make_shared<job>(loader_engine, load_request(origin, std::move(options)));
  post_or_abort(std::move(load), std::move(waiting),
                [](const std::shared_ptr<job>& started, std::unique_ptr<operation<model>> pending) {
                  started->delivery.deliver_once();
                  started->delivery.await_finish(std::move(pending));
                  run_job(started);
                });
}

void begin_start(const std::shared_ptr<engine>& loader_engine, const source& origin,
                 load_options options, std::unique_ptr<operation<load_handle>> waiting) {
  auto load = std::make_shared<job>(loader_engine, load_request(origin, std::move(options)));
  post_or_abort(
      std::move(load), std::move(waiting),
      [](const std::shared_ptr<job>& started, std::unique_ptr<operation<load_handle>> pending) {
        started->delivery.await_start(std::move(pending));
        run_job(started);
      });
}

void begin_stream(const std::shared_ptr<engine>& loader_engine, const source& origin,
                  load_options options, std::uint64_t window_bytes,
                  std::unique_ptr<operation<load_handle>> waiting) {
  if (window_bytes == 0) {
    const fault refused(errc::invalid_options, "stream_async",
                        "window_bytes is 0, expected at least the size of one tensor");
    waiting->fail(refused);
    return;
  }
  load_request request(origin, std::move(options));
  request.window_bytes = window_bytes;
  auto load = std::make_shared<job>(loader_engine, std::move(request));
  post_or_abort(
      std::move(load), std::move(waiting),
      [](const std::shared_ptr<job>& started, std::unique_ptr<operation<load_handle>> pending) {
        started->delivery.await_start(std::move(pending));
        run_job(started);
      });
}

// Opens a checkpoint: starts a load that selects no tensors.
void begin_open(const std::shared_ptr<engine>& loader_engine, const source& origin,
                open_options options, std::unique_ptr<operation<checkpoint>> waiting) {
  load_request request(origin, selection().names({}));
  request.options.open = options;
  auto load = std::make_shared<job>(loader_engine, std::move(request));
  post_or_abort(
      std::move(load), std::move(waiting),
      [](const std::shared_ptr<job>& started, std::unique_ptr<operation<checkpoint>> pending) {
        started->delivery.deliver_once();
        started->delivery.await_open(std::move(pending));
        run_job(started);
      });
}

void begin_fill(const std::shared_ptr<engine>& loader_engine, const source& origin,
                std::vector<destination> into, fill_options options,
                std::unique_ptr<operation<fill_result>> waiting) {
  fill_request fill(std::move(into), std::move(options));
  auto load = std::make_shared<job>(loader_engine, load_request(origin, std::move(fill)));
  post_or_abort(
      std::move(load), std::move(waiting),
      [](const std::shared_ptr<job>& started, std::unique_ptr<operation<fill_result>> pending) {
        started->delivery.await_fill(std::move(pending));
        run_job(started);
      });
}

void begin_copy(const std::shared_ptr<engine>& loader_engine, tensor origin,
                tensor_copy_options options, std::unique_ptr<operation<tensor>> waiting) {
  if (!origin) {
    const fault empty_handle(errc::no_such_tensor, "copy_async",
                             "the tensor handle is empty, expected a loaded tensor");
    waiting->fail(empty_handle);
    return;
  }
  const device target = options.device.value_or(origin.device());
  copy_request request(std::move(origin), target, options.dtype);
  auto load = std::make_shared<job>(loader_engine, load_request(std::move(request)));
  post_or_abort(
      std::move(load), std::move(waiting),
      [](const std::shared_ptr<job>& started, std::unique_ptr<operation<tensor>> pending) {
        started->delivery.deliver_once();
        started->delivery.await_copy(std::move(pending));
        run_job(started);
      });
}

void await_tensor(const std::shared_ptr<job>& load, std::string name,
                  std::unique_ptr<operation<tensor>> waiting) {
  const auto t = load->named().find(name);
  if (!t) {
    const fault unknown(errc::no_such_tensor,
                        printable_path(load->source) + ": " + tensor_place(name));
    waiting->fail(unknown);
    return;
  }
  post_or_abort(
      load, std::move(waiting),
      [t = *t](const std::shared_ptr<job>& started, std::unique_ptr<operation<tensor>> pending) {
        started->delivery.await_tensor(t, std::move(pending));
      });
}

void await_next(const std::shared_ptr<job>& load,
                std::unique_ptr<operation<std::optional<tensor>>> waiting) {
  post_or_abort(load, std::move(waiting),
                [](const std::shared_ptr<job>& started,
                   std::unique_ptr<operation<std::optional<tensor>>> pending) {
                  started->delivery.await_next(std::move(pending));
                });
}

void await_finish(const std::shared_ptr<job>& load, std::unique_ptr<operation<model>> waiting) {
  post_or_abort(load, std::move(waiting),
                [](const std::shared_ptr<job>& started, std::unique_ptr<operation<model>> pending) {
                  started->delivery.await_finish(std::move(pending));
                });
}

load_handle& load_handle::operator=(load_handle&& source) noexcept {
  const load_handle before(std::move(*this));
  job_ = std::move(source.job_);
  return *this;
}

load_handle::~load_handle() { cancel(); }

load_stats load_handle::progress() const { return job_->progress(); }

std::vector<file_stats> load_handle::progress_of_files() const { return job_->per_file().stats(); }

void load_handle::cancel() noexcept {
  if (job_) job_->cancel();
}

const ringload::catalog& load_handle::catalog() const noexcept { return job_->named().catalog(); }

loader_base::loader_base(std::vector<ringload::device> targets, const loader_options& limits,
                         std::vector<extension> extensions, const allocation_log& log)
    : engine_(engine::make(std::move(targets), limits, {}, std::move(extensions), log)) {}

loader_base::loader_base(ringload::device target, const loader_options& limits,
                         std::vector<extension> extensions, const allocation_log& log)
    : loader_base(std::vector{target}, limits, std::move(extensions), log) {}

loader_base::~loader_base() {
  if (engine_) engine_->close();
}

ringload::device loader_base::device() const noexcept { return engine_->devices.listed().front(); }

const std::vector<ringload::device>& loader_base::devices() const noexcept {
  return engine_->devices.listed();
}

memory_use loader_base::memory() const {
  const memory_account& tensors = *engine_->memory.tensors;
  const memory_account& mapped = *engine_->memory.mapped;
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

load_stats loader_base::stats() const {
  load_stats s;
  engine_->fill_stats(s);
  return s;
}

}  // namespace detail

}  // namespace ringload::inline v0
