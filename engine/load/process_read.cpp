// SPDX-License-Identifier: Apache-2.0

// Carries out one read of a load: job::run(). Reads into the slot or straight to the destination,
// copies the slot out, and decodes compressed streams.
//
// Each co_await below returns only when neither the kernel nor a device uses the slot, even after
// cancellation.

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

// One read in progress. A local variable of job::run().
struct task {
  job& load;
  const read_op& read;
  std::uint32_t slot;
  bool awaited;
  std::span<std::byte> into;  // The slot, or the destination of a straight read.
  bool direct = false;
  bool straight = false;
  bool direct_refused = false;  // EINVAL at the first byte.
  result<void> outcome;
};

bool use_direct_read(const job& load, const read_op& read) {
  const open_file& file = load.file(read);
  if (load.supply(read) != nullptr || file.object) return false;
  if (!file.direct || load.direct_refused()) return false;
  if (load.options().route == read_route::direct) return true;
  // An already opened checkpoint may have files open for direct reads.
  if (load.options().route == read_route::buffered) return false;
  switch (residency_of(file.buffered.get(), read.file_offset, read.bytes)) {
    case residency::cached:
    case residency::dirty: return false;
    case residency::cold:
    case residency::unknown: return true;
  }
  return true;
}

// Memory of the caller may be misaligned for a direct read.
bool lands_straight(const task& t) {
  if (!t.read.straight()) return false;
  const std::byte* const to = t.load.into()[t.read.destination] + t.read.destination_offset;
  return !t.direct ||
         reinterpret_cast<std::uintptr_t>(to) % t.load.file(t.read).direct_address_alignment == 0;
}

// If the caller's memory cannot be populated, the failure is ignored. The read then reports it.
boost::asio::awaitable<void> populate_target(engine& e, task& t) {
  populate_task work = {t.into, {}};
  traced_step step(t.load.options(), load_step::populated, t.slot);
  const clock::time_point begin = clock::now();
  co_await on_thread(*e.copy_threads, e.loop, work, step.times());
  step.end(t.load.first_tensor(t.read), t.into.size());
  t.load.counters.memory_wait_nanoseconds += nanoseconds_since(begin);
  if (t.load.fill()) work.failed = {};
  if (work.failed) t.outcome = fault{work.failed, t.load.place(t.read, t.read.file_offset)};
}

// Makes the slot ready for its first use.
boost::asio::awaitable<void> prepare_own_slot(engine& e, task& t) {
  result<void> ready;
  std::optional<traced_step> step;
  if (!e.staging.ready(t.slot)) step.emplace(t.load.options(), load_step::populated, t.slot);
  work_interval* const times = step ? step->times() : nullptr;
  const clock::time_point begin = clock::now();
  co_await prepare_slot(e, t.slot, ready, times);
  if (step) step->end({}, t.into.size());
  t.load.counters.memory_wait_nanoseconds += nanoseconds_since(begin);
  if (!ready) t.outcome = ready.error().in(t.load.place(t.read, t.read.file_offset));
}

// Counts bytes of a file, or of an object of a store.
void count_arrived(const task& t, bool remote, int bytes) {
  t.load.per_file().arrived(t.read.file, bytes);
  if (remote) {
    t.load.counters.add_remote(t.straight, bytes);
  } else {
    t.load.counters.add_read(t.direct, t.straight, bytes);
  }
}

// Reads until all needed bytes have arrived, resuming short reads.
boost::asio::awaitable<void> read_into(engine& e, task& t) {
  const byte_supply* const supply = t.load.supply(t.read);
  byte_source* const object = t.load.file(t.read).object.get();
  reader& file_reader = object     ? *e.object_reader
                        : supply   ? *e.supply_reader
                        : t.direct ? *e.direct_reader
                                   : *e.buffered_reader;
  const bool in_arena = t.straight && !t.load.fill();
  const bool needs_populating = in_arena && !t.load.memory(t.read.destination).populated();
  // The caller's memory is usually populated. Populating again is then fast.
  const bool may_be_absent = t.straight && !in_arena;
  if ((needs_populating || may_be_absent) && !file_reader.populates()) {
    if (in_arena) begin_prefault(e, t.load);
    co_await populate_target(e, t);
    if (!t.outcome) co_return;
  }
  traced_step step(t.load.options(), load_step::read, t.slot);
  std::optional<admission_guard> admitted;
  if (t.direct && e.the_ring) {
    admitted.emplace(t.load.gate(t.read), t.read.bytes, t.awaited);
    co_await admitted->acquire();
  }
  if (t.straight) t.load.begin_writing();
  if (!file_reader.populates()) step.starts();
  const bool counted = object != nullptr || supply == nullptr;
  if (counted) t.load.per_file().begins(t.read.file);

  read_cursor cursor(t.read, t.direct ? block_bytes : 1);
  std::optional<read_cursor::step> left = cursor.first();
  bool first = true;
  boost::system::error_code supply_failed;
  fault object_failed;
  while (left && !t.load.stopped()) {
    read_request request;
    request.fd = t.direct ? t.load.file(t.read).direct.get() : t.load.file(t.read).buffered.get();
    request.direct = t.direct;
    request.bytes = left->bytes;
    request.file_offset = left->file_offset;
    request.into = t.into.data() + left->into_offset;
    request.registered_buffer = t.straight ? -1 : e.staging.registered_buffer(t.slot);
    request.fresh = needs_populating && first;
    request.awaited = t.awaited;
    request.supply = supply;
    request.supply_failed = &supply_failed;
    // An object has no blocks, and no bytes past its end.
    if (object) request.bytes = t.read.bytes_needed - left->into_offset;
    request.object = object;
    request.stop = &t.load.stop_token();
    request.counts = &t.load.counters.transfers;
    request.object_failed = &object_failed;
    request.times = step.times();
    const int res = co_await read(file_reader, request);

    if (res > 0 && counted) count_arrived(t, object != nullptr, res);
    auto next = cursor.completed(res);
    if (!next) {
      t.direct_refused = t.direct && first && res == -EINVAL;
      const fault cause = object_failed.code ? object_failed
                          : supply_failed    ? fault{supply_failed, ""}
                                             : next.error();
      t.outcome = cause.in(t.load.place(t.read, cursor.reached_offset()));
      break;
    }
    left = *next;
    first = first && res < 0;  // A retry is still the first.
  }
  const std::uint64_t bytes_read = cursor.reached_offset() - t.read.file_offset;
  step.end(t.load.first_tensor(t.read), t.outcome ? t.read.bytes_needed : bytes_read);
  t.load.counters.reads += 1;
  t.load.counters.short_reads += cursor.short_reads();
  t.load.counters.retries += cursor.retries();
}

// Returns the copies of the plan, or one copy of the whole range if a straight read was staged. A
// straight read that also has copies in the plan is replicated. Such a read is never staged,
// because its destination is a block of an arena.
std::span<const copy_op> copies_of(const task& t, copy_op& whole) {
  if (!t.read.straight() || t.straight) return t.load.copies(t.read);
  whole.destination_offset = t.read.destination_offset;
  whole.slot_offset = 0;
  whole.bytes = t.read.bytes_needed;
  whole.destination = t.read.destination;
  return {&whole, 1};
}

// The copies of a slot to several devices.
struct split_copies {
  std::vector<copy_op> order;
  std::vector<device_copies> slot_copies;  // Copies out of the slot.
  std::vector<device_copies> peer_copies;  // Copies between devices, after slot_copies.

  split_copies(const destinations& into, const copy_operation& request) {
    for (const destinations::share& share : into.shares(request.copies, order)) {
      device_copies copies = {share.by, share.of(request)};
      if (!slot_copies.empty())
        copies.request.times = nullptr;  // Only one share records the times.
      (copies.request.peer ? peer_copies : slot_copies).push_back(copies);
    }
  }
};

boost::asio::awaitable<void> copy_out(engine& e, task& t) {
  copy_op whole = {};
  copy_operation request;
  request.slot = t.into.data();
  request.copies = copies_of(t, whole);
  request.maps = t.load.maps();
  request.destinations = t.load.into().memory();
  request.threads = e.copy_threads->get_executor();
  t.load.begin_writing();
  traced_step step(t.load.options(), load_step::copied, t.slot);
  request.times = step.times();
  const clock::time_point begin = clock::now();
  copied outcome = {};
  if (backend* const only = t.load.into().only()) {
    const copied done = co_await copy(*only, request);
    outcome = done;
  } else {
    const split_copies split(t.load.into(), request);
    const copied done = co_await copy(split.slot_copies);
    outcome = done;
    if (!outcome.failed && !split.peer_copies.empty()) {
      const copied peers_done = co_await copy(split.peer_copies);
      outcome = peers_done;
    }
  }
  step.end(t.load.first_tensor(t.read), request.bytes());
  t.load.counters.device_wait_nanoseconds += nanoseconds_since(begin);
  if (outcome.failed) t.outcome = fault{outcome.failed, t.load.place(t.read, t.read.file_offset)};
}

// The end of a direct read admits other reads. The admitted reads are submitted before this read is
// copied. Otherwise a copy thread may take the processor from the engine thread, and the drive
// waits.
boost::asio::awaitable<void> submit_next_reads(engine& e) {
  boost::asio::io_context& loop = e.loop;
  co_await yield_to_loop(loop);  // Admitted reads are prepared.
  co_await yield_to_loop(loop);  // The ring has submitted the reads.
}

boost::asio::awaitable<void> read_and_copy(engine& e, task& t) {
  t.direct = use_direct_read(t.load, t.read);
  t.straight = lands_straight(t);
  if (t.straight) {
    t.into = {t.load.into()[t.read.destination] + t.read.destination_offset, t.read.bytes};
  } else {
    co_await prepare_own_slot(e, t);
  }
  if (!t.outcome) co_return;
  co_await read_into(e, t);
  if (t.direct_refused && t.load.options().route == read_route::direct) {
    t.outcome = fault{errc::direct_unavailable, t.outcome.error().where,
                      "the file system refused a direct read: Invalid argument"};
  } else if (t.direct_refused) {
    t.load.refuse_direct(message_of(t.outcome.error()) + ", for a direct read");
    t.direct = false;
    t.outcome = {};
    co_await read_into(e, t);
  }
  const bool copies = t.read.copies_begin != t.read.copies_end;
  if (!t.outcome || (t.straight && !copies)) co_return;
  if (t.direct && e.the_ring) co_await submit_next_reads(e);
  if (t.load.stopped()) co_return;
  if (t.read.straight() || copies) co_await copy_out(e, t);
  if (t.outcome && !t.load.stopped()) {
    co_await feed_streams(e, t.load, t.read, t.slot, t.outcome);
  }
}

}  // namespace

boost::asio::awaitable<void> job::run(work_step step, result<void>& outcome) {
  engine& e = *the_engine;
  task t = {*this,
            read(step.index),
            step.slot,
            step.awaited,
            e.staging.memory(step.slot),
            false,
            false,
            false,
            {}};
  co_await read_and_copy(e, t);
  outcome = t.outcome;
}

}  // namespace ringload::inline v0::detail
