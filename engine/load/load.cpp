// SPDX-License-Identifier: Apache-2.0

// The life of a load, from beginning to end. The file to read first.

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

// Each of these blocks, on the file system or on freeing memory, so it runs in a thread pool.
struct open_task {
  engine& e;
  const job& of;
  result<opened_load> found = fault();
  result<void> placed;

  void operator()() noexcept {
    const open_services by = {e.within, e.devices, e.direct, {e.with, of.stop_token()}};
    const load_request& what = of.request();
    found =
        catch_as_fault([&] { return what.copy ? open_copy(*what.copy, by) : open_load(what, by); });
    if (found) placed = catch_as_fault([&] { return place_unread(e, *found); });
  }
};

// Closes the files as well, unless somebody else has the checkpoint too; and releases the owners of
// what was filled, and of what was copied.
struct close_files_task {
  std::shared_ptr<const opened_checkpoint> files;
  bool keep;  // Somebody waits for the checkpoint itself.
  job& of;
  result<void> unchanged;

  void operator()() noexcept {
    if (files) unchanged = catch_as_fault([&] { return check_unchanged(*files); });
    if (!keep) files.reset();
    of.release_borrowed();
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

// Opening and planning go on in one thread, one after the other.
void trace_opening(const job& of, const opened_load& found, const work_interval& whole) noexcept {
  trace_event event;
  event.bytes = found.from->named->catalog().size_bytes();
  event.asked = event.begin = whole.begin;
  event.end = found.opened_at;
  of.options().trace(event, of.options().trace_with);
  event.step = load_step::planned;
  event.bytes = found.plan.bytes_wanted;
  event.asked = event.begin = found.opened_at;
  event.end = whole.end;
  of.options().trace(event, of.options().trace_with);
}

// With a window the load only opens the checkpoint, and the window loads group after group.
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

boost::asio::awaitable<void> begin(engine& e, const std::shared_ptr<job>& one, open_task& open) {
  engine& with = e;
  if (!one->request().copy) with.prepare_slots();
  work_interval times;
  co_await on_thread(*with.open_threads, with.loop, open, &times);
  if (open.found && one->options().trace) trace_opening(*one, *open.found, times);
  if (!open.found) one->stop(open.found.error());
  if (open.found && open.found->fill) one->set_fill(std::move(*open.found->fill));
  if (!open.placed) one->stop(open.placed.error());
  if (one->stopped()) co_return;
  if (!open.found->checks.empty()) {
    if (auto ready = with.start_checking(); !ready) one->stop(ready.error());
    if (one->stopped()) co_return;
  }
  if (!open.found->plan.streams.empty()) {
    if (auto ready = with.start_decoding(); !ready) one->stop(ready.error());
    if (one->stopped()) co_return;
  }
  begin_load(*one, std::move(*open.found));
  // Files, catalog, plan and memory are fixed: nothing below parses, or chooses an offset or size.

  one->delivery.started();
  with.read_schedule.add(one);
}

boost::asio::awaitable<void> end(engine& e, job& one, open_task& open) {
  engine& with = e;
  close_files_task close = {one.opened(), one.delivery.awaits_open(), one, {}};
  if (!close.keep) one.release_files();
  if (close.files || one.borrows()) co_await on_thread(*with.closing_thread, with.loop, close);
  if (!close.unchanged) one.stop(close.unchanged.error());
  if (!one.stopped()) co_return;
  release_memory_task release = {std::move(open.found), one.release_storage()};
  co_await on_thread(*with.closing_thread, with.loop, release);
}

boost::asio::awaitable<void> load(engine& e, std::shared_ptr<job> one) {
  open_task open = {e, *one, fault(), {}};
  // Any small allocation below may fail. The load then fails, and its waiters are still completed.
  try {
    co_await begin(e, one, open);
  } catch (const std::bad_alloc&) {
    one->stop({errc::memory_exceeded, {}});
  }
  for (bool waiting = !one->quiet(); waiting; waiting = !one->quiet()) {
    try {
      co_await one->until_quiet();
    } catch (const std::bad_alloc&) {
      one->stop({errc::memory_exceeded, {}});
    }
  }
  // All bytes are in the arena, or the load has failed. Neither the kernel nor the device uses its
  // memory any more.

  try {
    co_await end(e, *one, open);
  } catch (const std::bad_alloc&) {
    one->stop({errc::memory_exceeded, {}});
  }
  one->release_storage_if_stopped();
  // Only the storage that tensors share is still held.

  one->finish();
  e.remove_user(*one);
}

}  // namespace

void run_job(const std::shared_ptr<job>& one) {
  engine& e = *one->the_engine;
  e.add_user(one);
  // Out of memory, co_spawn may throw or destroy the coroutine silently. Either way its handle is
  // destroyed, whose deleter then completes the load's waiters.
  const auto answer = [one](job*) {
    if (one->finished()) return;
    one->stop({errc::memory_exceeded, {}});
    one->finish();
    one->the_engine->remove_user(*one);
  };
  try {
    const std::shared_ptr<job> handle(one.get(), answer);
    boost::asio::co_spawn(e.loop, load(e, handle), boost::asio::detached);
  } catch (const std::bad_alloc&) {
    // The handle's deleter has run.
  }
}

}  // namespace ringload::inline v0::detail
