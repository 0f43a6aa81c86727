// SPDX-License-Identifier: Apache-2.0

// io_uring of the simulated world. The queues are those of liburing, in memory. This file defines
// the functions of liburing that call the kernel.

#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "drive.hpp"
#include "memory.hpp"
#include "real_functions.hpp"
#include "world.hpp"

namespace ringload::simulation {

namespace {

struct simulated_ring {
  std::vector<io_uring_sqe> sqes;
  std::vector<io_uring_cqe> cqes;
  unsigned sq_head = 0;
  unsigned sq_tail = 0;
  unsigned sq_mask = 0;
  unsigned sq_entries = 0;
  unsigned cq_head = 0;
  unsigned cq_tail = 0;
  unsigned cq_mask = 0;
  unsigned cq_entries = 0;
  bool deferred = false;  // Completions enter the CQ when the program asks for them.
  int event_fd = -1;
  std::list<io_uring_cqe> ended;
  std::vector<iovec> buffers;
  std::size_t in_flight = 0;
  // Reads in flight, and the bytes of direct reads. Each loader has one ring.
  std::size_t reads = 0;
  std::size_t direct_reads = 0;
  std::uint64_t direct_bytes = 0;
};

std::map<const io_uring*, std::unique_ptr<simulated_ring>> rings;

void signal(const simulated_ring& ring) {
  if (ring.event_fd < 0) return;
  const std::uint64_t one = 1;
  if (REAL(write)(ring.event_fd, &one, sizeof one) < 0) violation("the eventfd is closed");
  descriptors_changed();
}

void reap(simulated_ring& ring) {
  while (!ring.ended.empty() && ring.cq_tail - ring.cq_head < ring.cq_entries) {
    ring.cqes[ring.cq_tail & ring.cq_mask] = ring.ended.front();
    ring.ended.pop_front();
    ++ring.cq_tail;
  }
}

void complete(simulated_ring& ring, std::uint64_t user_data, std::int64_t result) {
  io_uring_cqe entry = {};
  entry.user_data = user_data;
  entry.res = static_cast<__s32>(result);
  ring.ended.push_back(entry);
  if (!ring.deferred) reap(ring);
  signal(ring);
}

bool is_registered(const simulated_ring& ring, const io_uring_sqe& entry) {
  if (entry.buf_index >= ring.buffers.size()) return false;
  const iovec& buffer = ring.buffers[entry.buf_index];
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer.iov_base);
  return entry.addr >= begin && entry.addr + entry.len <= begin + buffer.iov_len;
}

// The default of loader_options::slots for the host.
constexpr unsigned host_slots = 16;

// A single direct read is always allowed.
void check_limits(const simulated_ring& ring) {
  const world_settings& world = settings();
  // A delta for a GPU is applied by a loader for the host, which has the default number of slots.
  const unsigned slots = world.devices == 0 ? world.slots : std::max(world.slots, host_slots);
  if (ring.reads > slots) violation("more reads are in flight than a loader has slots");
  if (world.bytes_in_flight != 0 && ring.direct_reads > 1 &&
      ring.direct_bytes > world.bytes_in_flight) {
    violation("direct reads of " + std::to_string(ring.direct_bytes) + " bytes are in flight");
  }
}

void start_entry(simulated_ring& ring, const io_uring_sqe& entry) {
  const certain_memory simulation;
  if (entry.opcode == IORING_OP_NOP) {
    complete(ring, entry.user_data, 0);
    return;
  }
  const bool is_fixed =
      entry.opcode == IORING_OP_READ_FIXED || entry.opcode == IORING_OP_WRITE_FIXED;
  const bool is_write = entry.opcode == IORING_OP_WRITE || entry.opcode == IORING_OP_WRITE_FIXED;
  if (is_fixed && !is_registered(ring, entry)) {
    complete(ring, entry.user_data, -EFAULT);
    return;
  }
  auto* const memory = reinterpret_cast<std::byte*>(entry.addr);
  const auto transferred =
      start_transfer({entry.fd, memory, entry.len, is_write, entry.off, false});
  const bool is_direct_read = !is_write && is_direct_source(entry.fd);
  ++ring.in_flight;
  if (!is_write) ++ring.reads;
  if (is_direct_read) {
    ++ring.direct_reads;
    ring.direct_bytes += entry.len;
  }
  check_limits(ring);
  call_at(now() + transfer_nanoseconds(),
          [&ring, entry, memory, is_write, is_direct_read, transferred] {
            std::int64_t result = -EAGAIN;
            if (happens(settings().faults.interrupted)) {
              if (random(2) == 0) result = -EINTR;
            } else {
              result = carry_out(entry.fd, memory, entry.len, entry.off, is_write);
            }
            end_transfer(transferred);
            --ring.in_flight;
            if (!is_write) --ring.reads;
            if (is_direct_read) {
              --ring.direct_reads;
              ring.direct_bytes -= entry.len;
            }
            complete(ring, entry.user_data, result);
          });
}

simulated_ring* ring_of(const io_uring* ring) {
  const auto found = rings.find(ring);
  return found == rings.end() ? nullptr : found->second.get();
}

int submit(io_uring& of, simulated_ring& ring) {
  unsigned count = of.sq.sqe_tail - of.sq.sqe_head;
  if (count > 0 && happens(settings().faults.submission)) {
    if (random(2) == 0) return random(2) == 0 ? -EAGAIN : -EINTR;
    count = static_cast<unsigned>(1 + random(count));
  }
  for (unsigned i = 0; i < count; ++i) {
    start_entry(ring, ring.sqes[of.sq.sqe_head & ring.sq_mask]);
    ++of.sq.sqe_head;
    ring.sq_head = of.sq.sqe_head;
  }
  ring.sq_tail = of.sq.sqe_tail;
  return static_cast<int>(count);
}

unsigned power_of_two(unsigned least) {
  unsigned power = 1;
  while (power < least) power *= 2;
  return power;
}

}  // namespace

void begin_rings() { rings.clear(); }

void end_rings() {
  if (!rings.empty()) violation("a ring is open at the end");
}

}  // namespace ringload::simulation

using namespace ringload::simulation;

extern "C" {

int io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* params) {
  if (!is_within()) return REAL(io_uring_queue_init_params)(entries, ring, params);
  turn('i');
  const certain_memory simulation;
  if (settings().refuses_ring) return -EPERM;
  if (settings().refuses_deferred && (params->flags & IORING_SETUP_DEFER_TASKRUN) != 0) {
    return -EINVAL;
  }
  auto created = std::make_unique<simulated_ring>();
  created->deferred = (params->flags & IORING_SETUP_DEFER_TASKRUN) != 0;
  created->sq_entries = power_of_two(entries);
  created->sq_mask = created->sq_entries - 1;
  created->sqes.resize(created->sq_entries);
  created->cq_entries = power_of_two(std::max(params->cq_entries, 2 * entries));
  created->cq_mask = created->cq_entries - 1;
  created->cqes.resize(created->cq_entries);
  std::memset(ring, 0, sizeof *ring);
  ring->sq.khead = &created->sq_head;
  ring->sq.ktail = &created->sq_tail;
  ring->sq.sqes = created->sqes.data();
  ring->sq.ring_mask = created->sq_mask;
  ring->sq.ring_entries = created->sq_entries;
  ring->cq.khead = &created->cq_head;
  ring->cq.ktail = &created->cq_tail;
  ring->cq.cqes = created->cqes.data();
  ring->cq.ring_mask = created->cq_mask;
  ring->cq.ring_entries = created->cq_entries;
  ring->flags = params->flags;
  ring->features = params->features = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
  ring->ring_fd = ring->enter_ring_fd = -1;
  rings[ring] = std::move(created);
  return 0;
}

void io_uring_queue_exit(io_uring* ring) {
  simulated_ring* const known = ring_of(ring);
  if (!known) return REAL(io_uring_queue_exit)(ring);
  if (known->in_flight != 0) violation("a ring is closed while a read or write is in flight");
  rings.erase(ring);
}

int io_uring_submit(io_uring* ring) {
  simulated_ring* const known = ring_of(ring);
  if (!known) return REAL(io_uring_submit)(ring);
  turn('S');
  return submit(*ring, *known);
}

int io_uring_submit_and_wait(io_uring* ring, unsigned count) {
  simulated_ring* const known = ring_of(ring);
  if (!known) return REAL(io_uring_submit_and_wait)(ring, count);
  const int submitted = submit(*ring, *known);
  // Only the check of a new ring waits. A refusal there is final.
  if (submitted < 0) count_hard_fault();
  reap(*known);
  return submitted;
}

int io_uring_get_events(io_uring* ring) {
  simulated_ring* const known = ring_of(ring);
  if (!known) return REAL(io_uring_get_events)(ring);
  turn('g');
  reap(*known);
  return 0;
}

int __io_uring_get_cqe(io_uring* ring, io_uring_cqe** entry, unsigned submitted, unsigned count,
                       sigset_t* mask) {
  simulated_ring* const known = ring_of(ring);
  if (!known) return REAL(__io_uring_get_cqe)(ring, entry, submitted, count, mask);
  *entry = nullptr;
  if (!known->deferred || count > 0) reap(*known);
  if (known->cq_tail == known->cq_head) return -EAGAIN;
  *entry = &known->cqes[known->cq_head & known->cq_mask];
  return 0;
}

io_uring_probe* io_uring_get_probe_ring(io_uring* ring) {
  if (!ring_of(ring)) return REAL(io_uring_get_probe_ring)(ring);
  constexpr std::size_t operations = 64;
  auto* const probe = static_cast<io_uring_probe*>(
      std::calloc(1, sizeof(io_uring_probe) + operations * sizeof(io_uring_probe_op)));
  probe->last_op = operations - 1;
  probe->ops_len = operations;
  for (std::size_t i = 0; i < operations; ++i) probe->ops[i].flags = IO_URING_OP_SUPPORTED;
  return probe;
}

int io_uring_register_eventfd(io_uring* ring, int fd) {
  simulated_ring* const known = ring_of(ring);
  if (!known) return REAL(io_uring_register_eventfd)(ring, fd);
  known->event_fd = fd;
  return 0;
}

int io_uring_register_buffers_sparse(io_uring* ring, unsigned count) {
  simulated_ring* const known = ring_of(ring);
  if (!known) return REAL(io_uring_register_buffers_sparse)(ring, count);
  if (random(4) == 0) return -EINVAL;  // A kernel before 5.19.
  const certain_memory simulation;
  known->buffers.assign(count, iovec());
  return 0;
}

int io_uring_register_buffers_update_tag(io_uring* ring, unsigned offset, const iovec* buffers,
                                         const __u64* tags, unsigned count) {
  simulated_ring* const known = ring_of(ring);
  if (!known) {
    return REAL(io_uring_register_buffers_update_tag)(ring, offset, buffers, tags, count);
  }
  if (random(8) == 0) return -ENOMEM;
  for (unsigned i = 0; i < count; ++i) known->buffers.at(offset + i) = buffers[i];
  return static_cast<int>(count);
}

int io_uring_register_iowq_max_workers(io_uring* ring, unsigned* values) {
  if (!ring_of(ring)) return REAL(io_uring_register_iowq_max_workers)(ring, values);
  return 0;
}

}  // extern "C"
