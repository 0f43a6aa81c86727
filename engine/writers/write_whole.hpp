// SPDX-License-Identifier: Apache-2.0
#pragma once

// The way of every block to the drive: directly where that can be, else through the page cache;
// resumed where the kernel takes it in pieces.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/fault.hpp"
#include "readers/threads.hpp"
#include "ring/ring.hpp"
#include "writers/block_writer.hpp"
#include "writers/written_file.hpp"

namespace ringload::inline v0 {

struct block_writers {
  std::unique_ptr<block_writer> direct;
  std::unique_ptr<block_writer> buffered;  // By threads: copying would block the loop.
};

// Direct writes go by the ring, if there is one, else by `pool`. All outlive the writers.
block_writers make_block_writers(boost::asio::io_context& loop, ring* by, threads& pool);

struct block_of_file {
  std::uint64_t file_offset = 0;
  std::uint32_t bytes = 0;
  const std::byte* from = nullptr;
  int registered_buffer = -1;  // The index of the registered buffer that `from` lies in, or -1.
};

// Whether a write there, of so many bytes, can be direct, if its memory is aligned.
bool can_be_direct(const written_file& file, std::uint64_t file_offset,
                   std::uint32_t bytes) noexcept;

struct write_end {
  result<void> outcome;
  bool direct = false;  // It was written so.
  bool whole = false;   // False, without a fault: `stop` was set before all was written.
};

// Writes all of `what`, directly if `direct`, for which its place, its length and its memory must
// be aligned. If the file system refuses that, `to` says so from then on, and it is written through
// the page cache. All outlive the wait; the memory is not read any more when it ends.
boost::asio::awaitable<void> write_whole(block_writers& with, written_file& to,
                                         const block_of_file& what, bool direct,
                                         const std::atomic<bool>& stop, write_end& end);

}  // namespace ringload::inline v0
