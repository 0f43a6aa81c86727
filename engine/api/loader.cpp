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

// Runs `command(waiting)` in the engine thread; once that is closed, completes `waiting` as
// aborted.
template <class T, class Command>
void post_or_abort(engine& e, const std::string& source, std::unique_ptr<operation<T>> waiting,
                   Command command) {
  struct packed {
    std::unique_ptr<operation<T>> waiting;
    Command command;
    void operator()() { command(std::move(waiting)); }
  };
  packed whole{std::move(waiting), std::move(command)};
  if (e.post(std::move(whole))) return;
  const fault gone(boost::asio::error::operation_aborted, printable_path(source),
                   "the loader was destroyed");
  whole.waiting->complete(to_exception(gone), T());
}

}  // namespace

void begin_load(const std::shared_ptr<engine>& with, load_request what,
                std::unique_ptr<operation<model>> waiting) {
  if (what.options.window_bytes > 0) {
    const fault why(errc::invalid_options, "load_options::window_bytes",
                    "a whole model is loaded without a window; start_async loads through one");
    waiting->complete(to_exception(why), model());
    return;
  }
  auto one = std::make_shared<job>(with, std::move(what));
  post_or_abort(*with, one->source, std::move(waiting), [one](std::unique_ptr<operation<model>> w) {
    one->delivery.hand_out_once();
    one->delivery.await_finish(std::move(w));
    run_job(one);
  });
}

void begin_start(const std::shared_ptr<engine>& with, load_request what,
                 std::unique_ptr<operation<load_operation>> waiting) {
  auto one = std::make_shared<job>(with, std::move(what));
  post_or_abort(*with, one->source, std::move(waiting),
                [one](std::unique_ptr<operation<load_operation>> w) {
                  one->delivery.await_start(std::move(w));
                  run_job(one);
                });
}

// A load of nothing, whose checkpoint is what is wanted.
void begin_open(const std::shared_ptr<engine>& with, source_name source, open_options how,
                std::unique_ptr<operation<checkpoint>> waiting) {
  load_request what(std::move(source), selection().names({}), load_options());
  what.options.strictness = how.strictness;
  what.independent_files = how.independent_files;
  what.options.nameless = how.nameless;
  auto one = std::make_shared<job>(with, std::move(what));
  post_or_abort(*with, one->source, std::move(waiting),
                [one](std::unique_ptr<operation<checkpoint>> w) {
                  one->delivery.hand_out_once();
                  one->delivery.await_open(std::move(w));
                  run_job(one);
                });
}

void begin_fill(const std::shared_ptr<engine>& with, load_request what,
                std::unique_ptr<operation<fill_result>> waiting) {
  auto one = std::make_shared<job>(with, std::move(what));
  post_or_abort(*with, one->source, std::move(waiting),
                [one](std::unique_ptr<operation<fill_result>> w) {
                  one->delivery.await_fill(std::move(w));
                  run_job(one);
                });
}

void begin_copy(const std::shared_ptr<engine>& with, copy_request what,
                std::unique_ptr<operation<tensor>> waiting) {
  if (!what.from) {
    const fault nothing(errc::no_such_tensor, "copy_async", "it was given an empty handle");
    waiting->complete(to_exception(nothing), tensor());
    return;
  }
  auto one = std::make_shared<job>(with, load_request(std::move(what)));
  post_or_abort(*with, one->source, std::move(waiting),
                [one](std::unique_ptr<operation<tensor>> w) {
                  one->delivery.hand_out_once();
                  one->delivery.await_copy(std::move(w));
                  run_job(one);
                });
}

void await_tensor(const std::shared_ptr<job>& of, std::string name,
                  std::unique_ptr<operation<tensor>> waiting) {
  const auto t = of->named().find(name);
  if (!t) {
    const fault unknown(errc::no_such_tensor,
                        printable_path(of->source) + ": " + tensor_place(name));
    waiting->complete(to_exception(unknown), tensor());
    return;
  }
  post_or_abort(*of->the_engine, of->source, std::move(waiting),
                [of, t = *t](std::unique_ptr<operation<tensor>> w) {
                  of->delivery.await_tensor(t, std::move(w));
                });
}

void await_next(const std::shared_ptr<job>& of,
                std::unique_ptr<operation<std::optional<tensor>>> waiting) {
  post_or_abort(*of->the_engine, of->source, std::move(waiting),
                [of](std::unique_ptr<operation<std::optional<tensor>>> w) {
                  of->delivery.await_next(std::move(w));
                });
}

void await_finish(const std::shared_ptr<job>& of, std::unique_ptr<operation<model>> waiting) {
  post_or_abort(
      *of->the_engine, of->source, std::move(waiting),
      [of](std::unique_ptr<operation<model>> w) { of->delivery.await_finish(std::move(w)); });
}

}  // namespace detail

load_operation& load_operation::operator=(load_operation&& other) noexcept {
  load_operation before(std::move(*this));
  job_ = std::move(other.job_);
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

loader::loader(ringload::device target, const loader_options& within, std::vector<extension> with,
               const allocation_log& log)
    : loader(std::vector{target}, within, std::move(with), log) {}

loader::loader(std::vector<ringload::device> targets, const loader_options& within,
               std::vector<extension> with, const allocation_log& log)
    : engine_(detail::engine::make(std::move(targets), within, {}, std::move(with), log)) {}

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
