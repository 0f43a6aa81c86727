// SPDX-License-Identifier: Apache-2.0

// The coroutine of a load, from beginning to end. Read this file first.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>

#include "base/catch_as_fault.hpp"
#include "base/printable.hpp"
#include "load/decode_read.hpp"
#include "load/job.hpp"
#include "load/load_window.hpp"
#include "load/open_for_copy.hpp"
#include "load/traced_step.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"

namespace ringload::inline v0::detail {

namespace {

// The tasks below block on the file system or on freeing memory, so they run in a thread pool.
struct open_task {
  engine& e;
  const job& load;
  result<opened_load> found = fault();
  result<void> placed;

  void operator()() noexcept {
    const open_services services = {
        e.within, e.devices, e.direct, {e.extensions, load.stop_token()}};
    const load_request& request = load.request();
    found = catch_as_fault([&] {
      return request.copy ? open_copy(*request.copy, services) : open_load(request, services);
    });
    if (found) placed = catch_as_fault([&] { return place_unread(e, *found); });
  }
};

// Checks that the files are unchanged. Closes the files, unless the checkpoint has other owners.
// Releases the owners of the filled or copied memory.
struct close_files_task {
  std::shared_ptr<const opened_checkpoint> files;
  bool keep;  // An operation waits for the checkpoint.
  job& load;
  result<void> unchanged;

  void operator()() noexcept {
    if (files) unchanged = catch_as_fault([&] { return check_unchanged(*files); });
    if (!keep) files.reset();
    load.release_borrowed();
  }
};

struct release_memory_task {
  result<opened_load> unused;
  std::shared_ptr<const model_storage> memory;

  void operator()() noexcept {
    unused = fault();
    memory.reset();
  }
};

// Opening and planning run in one thread, one after the other.
void trace_opening(const job& load, const opened_load& found,
                   const work_interval& opening) noexcept {
  trace_event event;
  event.bytes = found.from->named->catalog().size_bytes();
  event.asked = event.begin = opening.begin;
  event.end = found.opened_at;
  load.options().trace(event, load.options().trace_with);
  event.step = load_step::planned;
  event.bytes = found.plan.bytes_wanted;
  event.asked = event.begin = found.opened_at;
  event.end = opening.end;
  load.options().trace(event, load.options().trace_with);
}

// With a window, the load only opens the checkpoint. The window then loads the groups.
void begin_load(job& load, opened_load opened) {
  if (load.options().window_bytes == 0) return load.begin(std::move(opened));
  load_request request = load.request();
  request.opened = checkpoint(opened.from);
  request.chosen = std::move(opened.chosen);
  std::vector<window_group> groups = std::move(opened.groups);
  const std::shared_ptr<const named_catalog> named = opened.named;
  load.begin(std::move(opened));
  load.delivery.set_window(std::make_shared<load_window>(
      load.the_engine, std::move(request), named, std::move(groups), load.shared_per_file()));
}

boost::asio::awaitable<void> begin(engine& e, const std::shared_ptr<job>& load, open_task& open) {
  if (!load->request().copy) e.prepare_slots();
  work_interval times;
  co_await on_thread(*e.open_threads, e.loop, open, &times);
  if (open.found && load->options().trace) trace_opening(*load, *open.found, times);
  if (!open.found) load->stop(open.found.error());
  if (open.found && open.found->fill) load->set_fill(std::move(*open.found->fill));
  if (!open.placed) load->stop(open.placed.error());
  if (load->stopped()) co_return;
  if (!open.found->checks.empty()) {
    if (auto ready = e.start_checking(); !ready) load->stop(ready.error());
    if (load->stopped()) co_return;
  }
  if (!open.found->plan.streams.empty()) {
    if (auto ready = e.start_decoding(); !ready) load->stop(ready.error());
    if (load->stopped()) co_return;
  }
  begin_load(*load, std::move(*open.found));
  // Files, catalog, plan and memory are fixed. No code below parses, or chooses an offset or size.

  load->delivery.started();
  e.read_schedule.add(load);
}

boost::asio::awaitable<void> end(engine& e, job& load, open_task& open) {
  close_files_task close = {load.opened(), load.delivery.awaits_open(), load, {}};
  if (!close.keep) load.release_files();
  if (close.files || load.borrows()) co_await on_thread(*e.closing_thread, e.loop, close);
  if (!close.unchanged) load.stop(close.unchanged.error());
  if (!load.stopped()) co_return;
  release_memory_task release = {std::move(open.found), load.release_storage()};
  co_await on_thread(*e.closing_thread, e.loop, release);
}

boost::asio::awaitable<void> load(engine& e, std::shared_ptr<job> started_load) {
  open_task open = {e, *started_load, fault(), {}};
  // Any small allocation below may fail. The load then fails, and its waiters are still completed.
  try {
    co_await begin(e, started_load, open);
  } catch (const std::bad_alloc&) {
    started_load->stop({errc::memory_exceeded, {}});
  }
  for (bool waiting = !started_load->quiet(); waiting; waiting = !started_load->quiet()) {
    try {
      co_await started_load->until_quiet();
    } catch (const std::bad_alloc&) {
      started_load->stop({errc::memory_exceeded, {}});
    }
  }
  // All bytes are in the arena, or the load has failed. Neither the kernel nor a device uses the
  // memory of the load any more.

  try {
    co_await end(e, *started_load, open);
  } catch (const std::bad_alloc&) {
    started_load->stop({errc::memory_exceeded, {}});
  }
  started_load->release_storage_if_stopped();
  // Only the storage that tensors share is still alive.

  started_load->finish();
  e.remove_user(*started_load);
}

}  // namespace

void run_job(const std::shared_ptr<job>& load_job) {
  engine& e = *load_job->the_engine;
  e.add_user(load_job);
  // Out of memory, co_spawn may throw or destroy the coroutine silently. Both destroy the handle,
  // and the handle's deleter completes the waiters of the load.
  const auto finish_load = [load_job](job*) {
    if (load_job->finished()) return;
    load_job->stop({errc::memory_exceeded, {}});
    load_job->finish();
    load_job->the_engine->remove_user(*load_job);
  };
  try {
    const std::shared_ptr<job> handle(load_job.get(), finish_load);
    boost::asio::co_spawn(e.loop, load(e, handle), boost::asio::detached);
  } catch (const std::bad_alloc&) {
    // The handle's deleter has completed the waiters.
  }
}

}  // namespace ringload::inline v0::detail
