// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a block completely: directly if possible, otherwise through the page cache, and resumed if
// the kernel accepts it in pieces.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fault.hpp"
#include "io/ring/ring.hpp"
#include "io/threads.hpp"
#include "io/writers/block_writer.hpp"
#include "io/writers/written_file.hpp"

namespace ringload::inline v0 {

struct block_writers {
  std::unique_ptr<block_writer> direct;
  std::unique_ptr<block_writer> buffered;  // Uses threads, because copying would block the loop.
};

// Direct writes use `io_ring`, or `pool` if it is null. All arguments must outlive the writers.
block_writers make_block_writers(boost::asio::io_context& loop, ring* io_ring, threads& pool);

struct block_of_file {
  std::uint64_t file_offset = 0;
  std::uint32_t bytes = 0;
  const std::byte* from = nullptr;
  int registered_buffer = -1;  // Index of the registered buffer that contains `from`, or -1.
};

// Returns true if a write of this place and length can be direct. The memory must be aligned too.
bool can_be_direct(const written_file& file, std::uint64_t file_offset,
                   std::uint32_t bytes) noexcept;

struct write_end {
  result<void> outcome;
  bool direct = false;  // The write was direct.
  bool whole = false;   // False without a fault: `stop` was set before all bytes were written.
};

// Writes all bytes of `extent`. For `direct`, its offset, length and memory must be aligned. If the
// file system refuses a direct write, `to` records that, and this and later writes go through the
// page cache. All arguments must outlive the wait. The memory is not read after it.
boost::asio::awaitable<void> write_fully(block_writers& writers, written_file& to,
                                         const block_of_file& extent, bool direct,
                                         const std::atomic<bool>& stop, write_end& end);

}  // namespace ringload::inline v0
