// SPDX-License-Identifier: Apache-2.0

// Implements job::run(), which carries out one read of a load. The plan decides whether a read is
// unstaged or staged. An unstaged read writes directly into its destination, unless the address of
// the destination is misaligned for a direct read. All other reads write into the worker's slot
// (I/O buffer), which is then copied to the destinations. Bytes of compressed streams are decoded
// from the slot.
//
// Each co_await in this file returns only when neither the kernel nor a device uses the slot, even
// after a cancellation.

#include <cerrno>
#include <chrono>
#include <optional>

#include "base/io_unit.hpp"
#include "io/io_cursor.hpp"
#include "io/residency.hpp"
#include "load/await_copy.hpp"
#include "load/decode_read.hpp"
#include "load/destination_use.hpp"
#include "load/job.hpp"
#include "load/prefault.hpp"
#include "load/split_copies.hpp"
#include "load/traced_step.hpp"
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

// One read in progress.
struct task {
  job& load;
  const read_op& read;
  std::uint32_t& slot;  // The worker's slot. After a second read, the slot of the faster read.
  bool awaited;
  std::span<std::byte> buffer;  // The slot, or the destination of an unstaged read.
  bool direct = false;
  bool unstaged = false;
  bool direct_refused = false;  // True if the first read returned EINVAL.
  // Function that reads the file into a slot in GPU memory (GPUDirect Storage). Null if the bytes
  // are read into host memory.
  const byte_supply* storage = nullptr;
  bool storage_refused = false;
  result<void> outcome;
};

bool use_direct_read(const job& load, const read_op& read) {
  const open_file& file = load.file(read);
  if (load.supply(read) != nullptr || file.object) return false;
  if (!file.direct || load.direct_refused()) return false;
  if (load.options().route == read_route::direct) return true;
  // A file can be open for direct reads although the option is `buffered`, because another load may
  // have opened the files of this checkpoint.
  if (load.options().route == read_route::buffered) return false;
  if (load.the_engine->options.gpu_direct == gpu_direct::required) return true;
  const residency found = residency_of(file.buffered.get(), read.file_offset, read.bytes);
  return found == residency::cold || found == residency::unknown;
}

// A late read can be issued again if the ring carries it out as a direct read of a distant mount. A
// second buffered read would wait for the page that the first read has locked. The worker may keep
// the slot of a second read. Such a slot has no counterpart in GPU memory for GPUDirect Storage.
bool can_repeat(const engine& e, const task& t) {
  return t.direct && e.the_ring && !e.storage && t.load.admission_of(t.read).finds_late_reads();
}

// Returns true if the bytes are read directly into the destination. The address of the caller's
// memory, or of a shifted tensor (see make_plan.cpp), can be misaligned for a direct read. A read
// that can be repeated uses the slot: the tensor could not be delivered while the first read may
// still write to the destination. All reads of a fill from a distant mount use the slot, so that
// the fill can complete although the mount does not answer. A read with further copies must be
// unstaged: see copies_of().
bool can_skip_slot(const engine& e, const task& t) {
  if (!t.read.is_unstaged()) return false;
  const bool is_distant_fill = t.load.is_fill() && t.load.is_on_distant_mount(t.read);
  const bool needs_slot = can_repeat(e, t) || is_distant_fill;
  if (needs_slot && t.read.copies_begin == t.read.copies_end) return false;
  const std::byte* const to =
      t.load.destination_memory()[t.read.destination] + t.read.destination_offset;
  return !t.direct ||
         reinterpret_cast<std::uintptr_t>(to) % t.load.file(t.read).direct_address_alignment == 0;
}

// Returns the function of GPUDirect Storage if the read can use this function. The read must be
// direct, and no byte may need decoding, because bytes are decoded on the host.
const byte_supply* storage_of(const task& t) {
  const bool decodes = t.read.feeds_begin != t.read.feeds_end;
  return t.direct && !t.unstaged && !decodes ? t.load.storage_supply(t.read) : nullptr;
}

// Fails if GPUDirect Storage is required but not possible for this read.
result<void> check_storage(const engine& e, const task& t) {
  const open_file& file = t.load.file(t.read);
  const bool decodes = t.read.feeds_begin != t.read.feeds_end;
  const bool is_file = t.load.supply(t.read) == nullptr && !file.object;
  if (e.options.gpu_direct != gpu_direct::required || t.storage || decodes || !is_file) return {};
  return fault{errc::direct_unavailable, t.load.error_place(t.read, t.read.file_offset),
               "GPUDirect Storage is required, but " + (file.direct_refusal.empty()
                                                            ? "the bytes are read through the host"
                                                            : file.direct_refusal)};
}

// Populates the destination of an unstaged read. A failure in the caller's memory is ignored here,
// because the read will report the failure.
boost::asio::awaitable<void> populate_target(engine& e, task& t) {
  populate_task work = {t.buffer, {}};
  traced_step step(t.load.options(), load_step::populated, t.slot);
  const clock::time_point begin = clock::now();
  co_await on_thread(*e.copy_threads, e.loop, work, step.times());
  step.end(t.load.first_tensor(t.read), t.buffer.size());
  t.load.counters.memory_wait_nanoseconds += nanoseconds_since(begin);
  if (t.load.is_fill()) work.failed = {};
  if (work.failed) t.outcome = fault{work.failed, t.load.error_place(t.read, t.read.file_offset)};
}

// Populates and pins the worker's slot at its first use.
boost::asio::awaitable<void> prepare_own_slot(engine& e, task& t) {
  result<void> ready;
  std::optional<traced_step> step;
  if (!e.staging.is_ready(t.slot)) step.emplace(t.load.options(), load_step::populated, t.slot);
  work_interval* const times = step ? step->times() : nullptr;
  const clock::time_point begin = clock::now();
  co_await prepare_slot(e, t.slot, ready, times);
  if (step) step->end({}, t.buffer.size());
  t.load.counters.memory_wait_nanoseconds += nanoseconds_since(begin);
  if (!ready) t.outcome = ready.error().in(t.load.error_place(t.read, t.read.file_offset));
}

// `remote` must be true if the bytes are from an object store.
void count_arrived(const task& t, bool remote, int bytes) {
  t.load.per_file().add_bytes(t.read.file, bytes);
  if (remote) {
    t.load.counters.add_remote(t.unstaged, bytes);
  } else {
    t.load.counters.add_read(t.direct, t.unstaged, bytes);
    if (t.storage) t.load.counters.bytes_gpu_direct += static_cast<unsigned>(bytes);
  }
}

raced_read race_of(engine& e, const task& t, const io_request& request, admission_guard& admitted) {
  raced_read race;
  race.queue = e.direct_io.get();
  race.request = repeatable(request);
  race.slot = t.slot;
  race.admitted = &admitted;
  race.file_owner = t.load.opened();
  race.counts = &t.load.counters.second_reads;
  race.stop = &t.load.stop_token();
  return race;
}

// Reads all needed bytes. After a short read, requests the remaining bytes.
boost::asio::awaitable<void> read_into(engine& e, task& t) {
  const byte_supply* const supply = t.storage ? t.storage : t.load.supply(t.read);
  byte_source* const object = t.load.file(t.read).object.get();
  const bool uncached = !object && !supply && !t.direct && t.load.is_uncached(t.read);
  io_queue& queue = t.storage  ? *e.storage_io
                    : object   ? *e.object_io
                    : supply   ? *e.threads_io
                    : uncached ? *e.threads_io
                    : t.direct ? *e.direct_io
                               : *e.buffered_io;
  const bool in_arena = t.unstaged && !t.load.is_fill();
  const bool needs_populating = in_arena && !t.load.memory(t.read.destination).populated();
  const bool may_be_absent = t.unstaged && !in_arena;  // Memory of the caller is usually populated.
  if ((needs_populating || may_be_absent) && !queue.populates()) {
    if (in_arena) begin_prefault(e, t.load);
    co_await populate_target(e, t);
    if (!t.outcome) co_return;
  }
  traced_step step(t.load.options(), load_step::read, t.slot);
  std::optional<admission_guard> admitted;
  if (t.direct && e.the_ring) {
    admitted.emplace(t.load.admission_of(t.read), t.read.bytes, t.awaited);
    co_await admitted->acquire();
  }
  if (t.unstaged) t.load.begin_writing();
  if (!queue.populates()) step.start();
  const bool counted = object != nullptr || supply == nullptr || t.storage != nullptr;
  if (counted) t.load.per_file().begin_read(t.read.file);

  io_cursor cursor = io_cursor::read(t.read.file_offset, t.read.bytes, t.read.bytes_needed,
                                     t.direct ? block_bytes : 1);
  std::optional<io_cursor::step> left = cursor.first();
  bool first = true;
  bool can_race = can_repeat(e, t) && !t.unstaged;
  boost::system::error_code supply_failed;
  fault object_failed;
  while (left && !t.load.stopped()) {
    io_request request;
    request.fd = t.direct ? t.load.file(t.read).direct.get() : t.load.file(t.read).buffered.get();
    request.direct = t.direct;
    request.bytes = left->bytes;
    request.file_offset = left->file_offset;
    request.memory = t.buffer.data() + left->memory_offset;
    const bool in_slot = !t.unstaged && t.storage == nullptr;
    request.registered_buffer = in_slot ? e.staging.registered_buffer(t.slot) : -1;
    request.uncached = uncached;
    request.is_distant = t.load.file(t.read).is_distant;
    request.fresh = needs_populating && first;
    request.awaited = t.awaited;
    request.supply = supply;
    request.supply_failed = &supply_failed;
    // An object store accepts any offset and size, and has no bytes past the end of the object.
    if (object) request.bytes = t.read.bytes_needed - left->memory_offset;
    request.object = object;
    request.stop = &t.load.stop_token();
    request.counts = &t.load.counters.transfers;
    request.object_failed = &object_failed;
    request.times = step.times();
    int res = 0;
    if (can_race && first) {
      const raced_read race = race_of(e, t, request, *admitted);
      const raced_result ended = co_await e.second_reads.read(race);
      t.slot = ended.slot;
      t.buffer = e.staging.memory(t.slot);
      can_race = !ended.was_repeated;
      res = ended.result;
    } else {
      const int ended = co_await await_io(queue, request);
      res = ended;
    }

    if (res > 0 && counted) count_arrived(t, object != nullptr, res);
    auto next = cursor.completed(res);
    if (!next) {
      t.direct_refused = t.direct && !t.storage && first && res == -EINVAL;
      t.storage_refused = t.storage != nullptr && supply_failed;
      const fault cause = object_failed.code ? object_failed
                          : supply_failed    ? fault{supply_failed, ""}
                                             : next.error();
      t.outcome = cause.in(t.load.error_place(t.read, cursor.reached_offset()));
      break;
    }
    left = *next;
    first = first && res < 0;  // Stays true if the first request failed and is repeated.
  }
  const std::uint64_t bytes_read = cursor.reached_offset() - t.read.file_offset;
  step.end(t.load.first_tensor(t.read), t.outcome ? t.read.bytes_needed : bytes_read);
  t.load.counters.reads += 1;
  t.load.counters.short_reads += cursor.short_transfers();
  t.load.counters.retries += cursor.retries();
}

// Returns the copies of the plan. If an unstaged read had to use the slot, returns one copy of the
// whole range instead. An unstaged read has copies in the plan only if a tensor has several
// destinations. In this case, the read never uses the slot: the tensor is in an arena and is not
// shifted, so the destination is aligned.
std::span<const copy_op> copies_of(const task& t, copy_op& whole) {
  if (!t.read.is_unstaged() || t.unstaged) return t.load.copies(t.read);
  whole.destination_offset = t.read.destination_offset;
  whole.slot_offset = 0;
  whole.bytes = t.read.bytes_needed;
  whole.destination = t.read.destination;
  return {&whole, 1};
}

boost::asio::awaitable<void> copy_out(engine& e, task& t) {
  copy_op whole = {};
  copy_operation request;
  request.slot = t.buffer.data();
  request.on_device = t.storage != nullptr;
  request.copies = copies_of(t, whole);
  request.maps = t.load.maps();
  request.destinations = t.load.destination_memory().memory();
  request.threads = e.copy_threads->get_executor();
  t.load.begin_writing();
  traced_step step(t.load.options(), load_step::copied, t.slot);
  request.times = step.times();
  const clock::time_point begin = clock::now();
  copy_result outcome = {};
  if (backend* const only = t.load.destination_memory().only()) {
    const copy_result end = co_await copy(*only, request);
    outcome = end;
  } else {
    const split_copies split(t.load.destination_memory(), request);
    const copy_result end = co_await copy(split.slot_copies);
    outcome = end;
    if (!outcome.failed && !split.peer_copies.empty()) {
      const copy_result peers_done = co_await copy(split.peer_copies);
      outcome = peers_done;
    }
  }
  step.end(t.load.first_tensor(t.read), request.bytes());
  const std::uint64_t duration = nanoseconds_since(begin);
  t.load.counters.device_wait_nanoseconds += duration;
  t.load.per_file().copied(t.read.file, duration);
  if (outcome.failed)
    t.outcome = fault{outcome.failed, t.load.error_place(t.read, t.read.file_offset)};
}

// The admission control may have admitted other reads when this read ended. The ring (io_uring)
// submits these reads before this read is copied. If the copy started first, its thread could
// occupy the processor of the engine thread, and the drive would be idle.
boost::asio::awaitable<void> submit_next_reads(engine& e) {
  boost::asio::io_context& loop = e.loop;
  co_await yield_to_loop(loop);  // Admitted reads prepare their requests.
  co_await yield_to_loop(loop);  // The ring submits the requests.
}

boost::asio::awaitable<void> read_and_copy(engine& e, task& t) {
  std::optional<destination_use> use;
  const std::byte* const registered = t.load.registered_memory(t.read);
  if (registered != nullptr) {
    // The copy needs neither a read nor a slot. A const_cast is safe, because the device only reads
    // this memory.
    use.emplace(t.load);
    t.buffer = {const_cast<std::byte*>(registered), t.read.bytes_needed};
    co_await copy_out(e, t);
    co_return;
  }
  // A supply copies memory or populates a mapping. Its bytes do not count.
  if (e.read_rate.is_set() && t.load.supply(t.read) == nullptr) {
    co_await e.read_rate.acquire(t.read.bytes_needed, t.load.stop_flag());
    if (t.load.stopped()) co_return;
  }
  t.direct = use_direct_read(t.load, t.read);
  t.unstaged = can_skip_slot(e, t);
  t.storage = storage_of(t);
  t.outcome = check_storage(e, t);
  if (!t.outcome) co_return;
  if (t.unstaged) {
    use.emplace(t.load);
    t.buffer = {t.load.destination_memory()[t.read.destination] + t.read.destination_offset,
                t.read.bytes};
  } else if (t.storage) {
    t.buffer = {e.storage->slot(t.slot), e.options.slot_bytes};
  } else {
    co_await prepare_own_slot(e, t);
  }
  if (!t.outcome) co_return;
  co_await read_into(e, t);
  if (t.storage_refused && e.options.gpu_direct == gpu_direct::required) {
    const fault& refused = t.outcome.error();
    const std::string reason = refused.cause().empty() ? refused.code.message() : refused.cause();
    t.outcome = fault{errc::direct_unavailable, refused.where(),
                      "GPUDirect Storage is required: " + reason};
    co_return;
  }
  if (t.storage_refused) {
    t.load.refuse_storage(message_of(t.outcome.error()));
    t.storage = nullptr;
    t.outcome = {};
    t.buffer = e.staging.memory(t.slot);
    co_await prepare_own_slot(e, t);
    if (!t.outcome) co_return;
    co_await read_into(e, t);
  }
  if (t.direct_refused && t.load.options().route == read_route::direct) {
    t.outcome = fault{errc::direct_unavailable, t.outcome.error().where(),
                      "the file system refused a direct read: Invalid argument"};
  } else if (t.direct_refused) {
    t.load.refuse_direct(message_of(t.outcome.error()) + ", for a direct read");
    t.direct = false;
    t.outcome = {};
    co_await read_into(e, t);
  }
  const bool copies = t.read.copies_begin != t.read.copies_end;
  if (!t.outcome || (t.unstaged && !copies)) co_return;
  if (t.direct && e.the_ring) co_await submit_next_reads(e);
  if (t.load.stopped()) co_return;
  if (!use) use.emplace(t.load);
  if (t.read.is_unstaged() || copies) co_await copy_out(e, t);
  if (t.outcome && !t.load.stopped()) {
    co_await feed_streams(e, t.load, t.read, t.slot, t.outcome);
  }
}

}  // namespace

boost::asio::awaitable<void> job::run(work_step& step, result<void>& outcome) {
  engine& e = *the_engine;
  task t = {*this,
            read(step.index),
            step.slot,
            step.awaited,
            e.staging.memory(step.slot),
            false,
            false,
            false,
            nullptr,
            false,
            {}};
  co_await read_and_copy(e, t);
  outcome = t.outcome;
}

}  // namespace ringload::inline v0::detail
