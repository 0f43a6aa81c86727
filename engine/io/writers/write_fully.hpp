// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a block completely, with O_DIRECT if possible, and otherwise through the page cache. A
// block of an object is passed to its store. Used by saves and by the public class `writer`.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>

#include "base/fault.hpp"
#include "io/io_queue.hpp"
#include "io/writers/written_file.hpp"

namespace ringload::inline v0 {

struct write_queues {
  io_queue& direct;
  io_queue& buffered;
  io_queue& objects;
};

struct file_block {
  std::uint64_t file_offset = 0;
  std::uint32_t bytes = 0;
  const std::byte* memory = nullptr;
  int registered_buffer = -1;  // Index of the registered buffer that contains the memory, or -1.
};

// Returns true if a write with this offset and length can be direct. Does not check whether the
// memory is aligned.
bool can_be_direct(const written_file& file, std::uint64_t file_offset,
                   std::uint32_t bytes) noexcept;

struct write_outcome {
  result<void> status;
  bool direct = false;  // True if the write was direct.
  // True if all bytes were written. After a stop request, `is_complete` may be false without a
  // fault.
  bool is_complete = false;
};

// Writes all bytes of `extent`. If `direct` is set, offset, length and memory must be aligned. If
// the file system refuses a direct write, stores the reason in `to.direct_refusal`. This write and
// later writes then use the page cache. Sets `written` when the write has ended. If the coroutine
// throws, `written` is unchanged. All arguments must be valid until the coroutine returns.
boost::asio::awaitable<void> write_fully(write_queues queues, written_file& to,
                                         const file_block& extent, bool direct,
                                         const std::atomic<bool>& stop, write_outcome& written);

}  // namespace ringload::inline v0
