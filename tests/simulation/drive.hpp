// SPDX-License-Identifier: Apache-2.0
#pragma once

// The transfers of the simulated drive, which io_uring and the functions of libc share.

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>

namespace ringload::simulation {

// A read or write that the drive carries out.
struct transfer {
  int fd = -1;
  const std::byte* memory = nullptr;
  std::uint64_t bytes = 0;
  bool is_write = false;
  std::uint64_t offset = 0;
  bool is_by_thread = false;  // A thread waits for the end. Otherwise the transfer is of a ring.
};

// Remembers the transfer while it is in flight. Two transfers must not use the same memory, unless
// both only read the memory.
std::list<transfer>::iterator start_transfer(const transfer& started);
void end_transfer(std::list<transfer>::iterator ended);

// The descriptor has O_DIRECT and is only for reads. A save that reads its file back is no load.
bool is_direct_source(int fd);

struct drive_read {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool direct = false;
  bool is_by_thread = false;
};

// Forgets the recorded reads, and records all reads from now on, in the order of their starts.
void record_reads();
std::span<const drive_read> recorded_reads();

std::int64_t transfer_nanoseconds();

// Carries out the transfer. Returns a byte count or -errno.
std::int64_t carry_out(int fd, void* memory, std::uint64_t bytes, std::uint64_t offset,
                       bool is_write);

// Defined in ring.cpp.
void begin_rings();
void end_rings();

}  // namespace ringload::simulation
