// SPDX-License-Identifier: Apache-2.0

// The coroutine that runs a load from beginning to end.

#include <algorithm>
#include <boost/asio/error.hpp>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "load/decode_read.hpp"
#include "load/job.hpp"
#include "load/load_window.hpp"
#include "load/open_for_copy.hpp"
#include "load/traced_step.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"
#include "runtime/spawn_owned.hpp"

namespace ringload::inline v0::detail {

namespace {

// Opens and plans a load. Runs in a thread of `open_threads`, because opening a file may block.
struct open_task {
  engine& e;
  const job& load;
  result<opened_load> opened = fault();
  result<void> placed;

  void operator()() noexcept {
    const open_services services = {
        e.options,
        e.devices,
        e.direct,
        {e.extensions, load.stop_token(), {&e.headers, &load.counters.second_reads}}};
    const load_request& request = load.request();
    opened = catch_as_fault([&] {
      return request.copy ? open_copy(*request.copy, services) : open_load(request, services);
    });
    if (opened) placed = catch_as_fault([&] { return place_unread(*opened); });
  }
};

// Task for a closing thread. Checks that the files did not change during the load. Closes the
// files, unless the checkpoint has other owners. After a fill or a copy, releases the objects that
// keep the caller's memory alive.
struct close_files_task {
  std::shared_ptr<const opened_checkpoint> files;
  bool keeps_files;  // True if an operation waits for the opened checkpoint.
  std::unique_ptr<storage_reads> reads;
  job& load;
  result<void> unchanged;

  void operator()() noexcept {
    if (files) {
      unchanged = catch_as_fault([&] { return check_unchanged(*files); });
      load.counters.files_unverified = count_unverified(*files);
    }
    reads.reset();
    if (!keeps_files) files.reset();
    load.release_borrowed();
  }
};

// Task for the closing thread: frees the memory of a failed load.
struct release_memory_task {
  result<opened_load> unused;
  std::shared_ptr<const model_storage> memory;

  void operator()() noexcept {
    unused = fault();
    memory.reset();
  }
};

// Reports two steps, which ran in one thread: opening the files and planning.
void trace_opening(const job& load, const opened_load& opened,
                   const work_interval& opening) noexcept {
  trace_event event;
  event.bytes = opened.checkpoint->named->catalog().size_bytes();
  event.asked = event.begin = opening.begin;
  event.end = opened.opened_at;
  load.options().trace(event, load.options().trace_context);
  event.step = load_step::planned;
  event.bytes = opened.plan.bytes_wanted;
  event.asked = event.begin = opened.opened_at;
  event.end = opening.end;
  load.options().trace(event, load.options().trace_context);
}

// Starts the reads of the load. If the load has a window, the job itself reads nothing. Its
// load_window then loads the tensors in groups, each with a job of its own.
void begin_reading(job& load, opened_load opened) {
  if (load.request().window_bytes == 0) return load.begin(std::move(opened));
  load_request request = load.request();
  request.opened = checkpoint(opened.checkpoint);
  request.window_bytes = opened.window_bytes;
  request.chosen = std::move(opened.chosen);
  std::vector<window_group> groups = std::move(opened.groups);
  const std::shared_ptr<const named_catalog> named = opened.named;
  load.begin(std::move(opened));
  load.delivery.set_window(std::make_shared<load_window>(load.the_engine, std::move(request), named,
                                                         std::move(groups), load.shared_counters));
}

boost::asio::awaitable<void> begin(engine& e, const std::shared_ptr<job>& load, open_task& open) {
  work_interval times;
  if (!load->request().copy) e.prepare_slots();
  co_await on_thread(*e.open_threads, e.loop, open, &times);
  if (open.opened && load->options().trace) trace_opening(*load, *open.opened, times);
  if (!open.opened) load->stop(open.opened.error());
  if (open.opened && open.opened->fill) load->set_fill(std::move(*open.opened->fill));
  if (!open.placed) load->stop(open.placed.error());
  if (load->stopped()) co_return;
  if (!open.opened->checks.empty()) {
    if (auto ready = e.start_checking(); !ready) load->stop(ready.error());
    if (load->stopped()) co_return;
  }
  if (!open.opened->plan.streams.empty()) {
    if (auto ready = e.start_decoding(); !ready) load->stop(ready.error());
    if (load->stopped()) co_return;
  }
  begin_reading(*load, std::move(*open.opened));
  // From here on, the open files, the catalog, the plan and the memory of this job stay the same.
  // If the load has a window, the job of each group makes its own plan later.

  load->delivery.started();
  e.read_schedule.add(load);
}

// Returns true if end() must be called: to close files, to free memory, or to release memory of the
// caller.
bool has_resources(const job& load, const open_task& open) {
  return open.opened || load.opened() || load.borrows_memory();
}

bool has_distant_files(const opened_checkpoint* checkpoint) noexcept {
  const auto is_distant = [](const open_file& file) { return file.object || file.is_distant; };
  return checkpoint != nullptr && std::ranges::any_of(checkpoint->files, is_distant);
}

boost::asio::awaitable<void> end(engine& e, job& load, open_task& open) {
  close_files_task close = {
      load.opened(), load.delivery.awaits_open(), load.release_storage_reads(), load, {}};
  if (!close.keeps_files) load.release_files();
  if (close.files || load.borrows_memory()) {
    threads& closing = e.closing_threads(has_distant_files(close.files.get()));
    co_await on_thread(closing, e.loop, close);
  }
  if (!close.unchanged) load.stop(close.unchanged.error());
  if (!load.stopped()) co_return;
  release_memory_task release = {std::move(open.opened), load.release_storage()};
  co_await on_thread(*e.closing_thread, e.loop, release);
}

boost::asio::awaitable<void> load(engine& e, std::shared_ptr<job> started_load) {
  open_task open = {e, *started_load, fault(), {}};
  // Any small allocation below may fail. In this case, the load fails, but its waiting operations
  // are completed. std::bad_alloc is caught in this coroutine, because another coroutine would need
  // memory for its frame.
  bool has_begun = false;
  for (bool ended = false; !ended;) {
    try {
      if (!std::exchange(has_begun, true)) co_await begin(e, started_load, open);
      while (!started_load->is_quiet()) co_await started_load->until_quiet();
      // All bytes are in memory, or the load has failed. Neither the kernel nor a device accesses
      // the memory of the load any more.
      ended = true;
      if (has_resources(*started_load, open)) co_await end(e, *started_load, open);
    } catch (const std::bad_alloc&) {
      started_load->stop({errc::memory_exceeded, {}});
    }
  }
  started_load->release_storage_if_stopped();
  // At this point, the memory of a failed load is freed, except the memory of tensors that the
  // caller has received.

  started_load->finish();
  e.remove_user(*started_load);
}

}  // namespace

void run_job(const std::shared_ptr<job>& load_job) {
  engine& e = *load_job->the_engine;
  e.add_user(load_job);
  const auto make_coroutine = [&e](std::shared_ptr<job> handle) {
    return load(e, std::move(handle));
  };
  spawn_owned(e.loop, load_job, make_coroutine, finish_for_memory<job>);
}

}  // namespace ringload::inline v0::detail
