// SPDX-License-Identifier: Apache-2.0

// Carries out one read of a load: job::run(). Reads into the slot or straight to the destination,
// copies the slot out, decodes compressed streams.
//
// Each co_await below returns only when neither the kernel nor a device uses the slot, cancelled or
// not.

#include <cerrno>
#include <chrono>
#include <optional>
#include <vector>

#include "base/io_unit.hpp"
#include "io/residency.hpp"
#include "load/await_copy.hpp"
#include "load/decode_read.hpp"
#include "load/job.hpp"
#include "load/prefault.hpp"
#include "load/traced_step.hpp"
#include "plan/read_cursor.hpp"
#include "runtime/engine.hpp"
#include "runtime/on_thread.hpp"
#include "runtime/slot_use.hpp"
#include "runtime/yield_to_loop.hpp"

namespace ringload::inline v0::detail {

namespace {

using clock = std::chrono::steady_clock;

std::uint64_t nanoseconds_since(clock::time_point begin) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(clock::now() - begin).count());
}

// One read in progress. Lives in job::run().
struct task {
  job& of;
  const read_op& read;
  std::uint32_t slot;
  bool awaited;
  std::span<std::byte> into;  // The slot, or where a straight read lands.
  bool direct = false;
  bool straight = false;
  bool direct_refused = false;  // EINVAL at the first byte.
  result<void> outcome;
};

bool use_direct_read(const job& of, const read_op& read) {
  const open_file& file = of.file(read);
  if (of.supply(read) != nullptr || file.object) return false;
  if (!file.direct || of.direct_refused()) return false;
  if (of.options().route == read_route::direct) return true;
  // A checkpoint that was opened before is open for direct reads too.
  if (of.options().route == read_route::buffered) return false;
  switch (residency_of(file.buffered.get(), read.file_offset, read.bytes)) {
    case residency::cached:
    case residency::dirty: return false;
    case residency::cold:
    case residency::unknown: return true;
  }
  return true;
}

// A direct read cannot land at every address of the caller's memory.
bool lands_straight(const task& t) {
  if (!t.read.straight()) return false;
  const std::byte* const to = t.of.into()[t.read.destination] + t.read.destination_offset;
  return !t.direct ||
         reinterpret_cast<std::uintptr_t>(to) % t.of.file(t.read).direct_address_alignment == 0;
}

// Of the caller's memory what cannot be populated is left to the read, which says what is wrong.
boost::asio::awaitable<void> populate_target(engine& e, task& t) {
  populate_task work = {t.into, {}};
  traced_step step(t.of.options(), load_step::populated, t.slot);
  const clock::time_point begin = clock::now();
  co_await on_thread(*e.copy_threads, e.loop, work, step.times());
  step.end(t.of.first_tensor(t.read), t.into.size());
  t.of.counters.memory_wait_nanoseconds += nanoseconds_since(begin);
  if (t.of.fill()) work.failed = {};
  if (work.failed) t.outcome = fault{work.failed, t.of.place(t.read, t.read.file_offset)};
}

// Before the slot's first use.
boost::asio::awaitable<void> prepare_own_slot(engine& e, task& t) {
  result<void> ready;
  std::optional<traced_step> step;
  if (!e.staging.ready(t.slot)) step.emplace(t.of.options(), load_step::populated, t.slot);
  work_interval* const times = step ? step->times() : nullptr;
  const clock::time_point begin = clock::now();
  co_await prepare_slot(e, t.slot, ready, times);
  if (step) step->end({}, t.into.size());
  t.of.counters.memory_wait_nanoseconds += nanoseconds_since(begin);
  if (!ready) t.outcome = ready.error().in(t.of.place(t.read, t.read.file_offset));
}

// Of a file, or of an object of a store.
void count_arrived(const task& t, bool remote, int bytes) {
  t.of.per_file().arrived(t.read.file, bytes);
  if (remote) {
    t.of.counters.add_remote(t.straight, bytes);
  } else {
    t.of.counters.add_read(t.direct, t.straight, bytes);
  }
}

// Reads until all needed bytes have arrived, resuming short reads.
boost::asio::awaitable<void> read_into(engine& e, task& t) {
  const byte_supply* const supply = t.of.supply(t.read);
  byte_source* const object = t.of.file(t.read).object.get();
  reader& with = object     ? *e.object_reader
                 : supply   ? *e.supply_reader
                 : t.direct ? *e.direct_reader
                            : *e.buffered_reader;
  const bool in_arena = t.straight && !t.of.fill();
  const bool needs_populating = in_arena && !t.of.memory(t.read.destination).populated();
  // The caller's memory mostly is; then this takes little, and a thread that reads needs none.
  const bool may_be_absent = t.straight && !in_arena;
  if ((needs_populating || may_be_absent) && !with.populates()) {
    if (in_arena) begin_prefault(e, t.of);
    co_await populate_target(e, t);
    if (!t.outcome) co_return;
  }
  traced_step step(t.of.options(), load_step::read, t.slot);
  std::optional<admission_guard> admitted;
  if (t.direct && e.the_ring) {
    admitted.emplace(t.of.gate(t.read), t.read.bytes, t.awaited);
    co_await admitted->acquire();
  }
  if (t.straight) t.of.begin_writing();
  if (!with.populates()) step.starts();
  const bool counted = object != nullptr || supply == nullptr;
  if (counted) t.of.per_file().begins(t.read.file);

  read_cursor cursor(t.read, t.direct ? block_bytes : 1);
  std::optional<read_cursor::step> left = cursor.first();
  bool first = true;
  boost::system::error_code supply_failed;
  fault object_failed;
  while (left && !t.of.stopped()) {
    read_request what;
    what.fd = t.direct ? t.of.file(t.read).direct.get() : t.of.file(t.read).buffered.get();
    what.direct = t.direct;
    what.bytes = left->bytes;
    what.file_offset = left->file_offset;
    what.into = t.into.data() + left->into_offset;
    what.registered_buffer = t.straight ? -1 : e.staging.registered_buffer(t.slot);
    what.fresh = needs_populating && first;
    what.awaited = t.awaited;
    what.supply = supply;
    what.supply_failed = &supply_failed;
    // An object has neither blocks nor bytes past its end.
    if (object) what.bytes = t.read.bytes_needed - left->into_offset;
    what.object = object;
    what.stop = &t.of.stop_token();
    what.counts = &t.of.counters.transfers;
    what.object_failed = &object_failed;
    what.times = step.times();
    const int res = co_await read(with, what);

    if (res > 0 && counted) count_arrived(t, object != nullptr, res);
    auto next = cursor.completed(res);
    if (!next) {
      t.direct_refused = t.direct && first && res == -EINVAL;
      const fault why = object_failed.code ? object_failed
                        : supply_failed    ? fault{supply_failed, ""}
                                           : next.error();
      t.outcome = why.in(t.of.place(t.read, cursor.reached_offset()));
      break;
    }
    left = *next;
    first = first && res < 0;  // A retry is still the first.
  }
  const std::uint64_t come = cursor.reached_offset() - t.read.file_offset;
  step.end(t.of.first_tensor(t.read), t.outcome ? t.read.bytes_needed : come);
  t.of.counters.reads += 1;
  t.of.counters.short_reads += cursor.short_reads();
  t.of.counters.retries += cursor.retries();
}

// The copies of the whole range of a read that would have landed straight, or those of the plan.
// What has both is replicated, and lands at a block of an arena, where every read can.
std::span<const copy_op> copies_of(const task& t, copy_op& whole) {
  if (!t.read.straight() || t.straight) return t.of.copies(t.read);
  whole.destination_offset = t.read.destination_offset;
  whole.slot_offset = 0;
  whole.bytes = t.read.bytes_needed;
  whole.destination = t.read.destination;
  return {&whole, 1};
}

// The copies of a slot to several devices.
struct split_copies {
  std::vector<copy_op> order;
  std::vector<device_copies> out;      // Of the slot.
  std::vector<device_copies> between;  // The devices, once the others have ended.

  split_copies(const destinations& into, const copy_operation& what) {
    for (const destinations::share& one : into.shares(what.copies, order)) {
      device_copies mine = {one.by, one.of(what)};
      if (!out.empty()) mine.what.times = nullptr;  // One thread notes when.
      (mine.what.peer ? between : out).push_back(mine);
    }
  }
};

boost::asio::awaitable<void> copy_out(engine& e, task& t) {
  copy_op whole = {};
  copy_operation what;
  what.slot = t.into.data();
  what.copies = copies_of(t, whole);
  what.maps = t.of.maps();
  what.destinations = t.of.into().memory();
  what.threads = e.copy_threads->get_executor();
  t.of.begin_writing();
  traced_step step(t.of.options(), load_step::copied, t.slot);
  what.times = step.times();
  const clock::time_point begin = clock::now();
  copied how = {};
  if (backend* const only = t.of.into().only()) {
    const copied done = co_await copy(*only, what);
    how = done;
  } else {
    const split_copies each(t.of.into(), what);
    const copied done = co_await copy(each.out);
    how = done;
    if (!how.failed && !each.between.empty()) {
      const copied then = co_await copy(each.between);
      how = then;
    }
  }
  step.end(t.of.first_tensor(t.read), what.bytes());
  t.of.counters.device_wait_nanoseconds += nanoseconds_since(begin);
  if (how.failed) t.outcome = fault{how.failed, t.of.place(t.read, t.read.file_offset)};
}

// The end of a direct read lets others be read. They are submitted before this one is copied: a
// copy thread that wakes may take the processor from the engine thread, and then the drive waits.
boost::asio::awaitable<void> submit_next_reads(engine& e) {
  boost::asio::io_context& loop = e.loop;
  co_await yield_to_loop(loop);  // Those that have been admitted are prepared,
  co_await yield_to_loop(loop);  // and the ring has submitted them.
}

boost::asio::awaitable<void> read_and_copy(engine& e, task& t) {
  t.direct = use_direct_read(t.of, t.read);
  t.straight = lands_straight(t);
  if (t.straight) {
    t.into = {t.of.into()[t.read.destination] + t.read.destination_offset, t.read.bytes};
  } else {
    co_await prepare_own_slot(e, t);
  }
  if (!t.outcome) co_return;
  co_await read_into(e, t);
  if (t.direct_refused && t.of.options().route == read_route::direct) {
    t.outcome = fault{errc::direct_unavailable, t.outcome.error().where,
                      "the file system refused a direct read: Invalid argument"};
  } else if (t.direct_refused) {
    t.of.refuse_direct(message_of(t.outcome.error()) + ", for a direct read");
    t.direct = false;
    t.outcome = {};
    co_await read_into(e, t);
  }
  const bool copies = t.read.copies_begin != t.read.copies_end;
  if (!t.outcome || (t.straight && !copies)) co_return;
  if (t.direct && e.the_ring) co_await submit_next_reads(e);
  if (t.of.stopped()) co_return;
  if (t.read.straight() || copies) co_await copy_out(e, t);
  if (t.outcome && !t.of.stopped()) {
    co_await feed_streams(e, t.of, t.read, t.slot, t.outcome);
  }
}

}  // namespace

boost::asio::awaitable<void> job::run(work_step step, result<void>& outcome) {
  engine& e = *the_engine;
  task t = {*this,
            read(step.index),
            step.slot,
            step.awaited,
            e.staging.at(step.slot),
            false,
            false,
            false,
            {}};
  co_await read_and_copy(e, t);
  outcome = t.outcome;
}

}  // namespace ringload::inline v0::detail
