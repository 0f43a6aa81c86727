// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface to what reads files: io_uring, or threads that call pread.

#include <boost/asio/awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ringload/byte_source.hpp>
#include <span>
#include <stop_token>

#include "core/busy_time.hpp"
#include "core/fault.hpp"
#include "readers/awaited_transfer.hpp"

namespace ringload::inline v0 {

// Brings bytes in another way than reading a file, in a thread that may block. As pread(): a number
// of bytes, fewer where there are no more, or -errno, and then `why` if that says more.
using byte_supply = std::function<std::int64_t(
    int fd, std::uint64_t file_offset, std::span<std::byte> into, boost::system::error_code& why)>;

struct read_request {
  int fd = -1;
  bool direct = false;  // `fd` was opened with O_DIRECT, and all below is aligned for it.
  std::uint32_t bytes = 0;
  std::uint64_t file_offset = 0;
  std::byte* into = nullptr;
  int registered_buffer = -1;  // The index of the registered buffer that `into` lies in, or -1.
  bool fresh = false;          // The memory is not populated: a reader that populates() does so.
  bool awaited = false;        // Somebody waits for it: its end is told at once.
  const byte_supply* supply = nullptr;  // Used in place of pread(); for a pool_reader.
  boost::system::error_code* supply_failed = nullptr;  // Its `why`.
  byte_source* object = nullptr;          // Read in place of a file; for an object_reader.
  const std::stop_token* stop = nullptr;  // Of such a read.
  transfer_counts* counts = nullptr;
  fault* object_failed = nullptr;  // What it said, where the result is -EIO.
  busy_time* times = nullptr;      // Told when a thread reads, if one does; null: nobody asks.
};

class reader {
 public:
  // It and the memory it points to must stay valid until `done` is called.
  struct operation {
    read_request what;
    // In the engine thread, once, never from inside start(): a number of bytes, or -errno.
    void (*done)(operation& self, int res) = nullptr;

    // The reader's own, for a list of those that have ended.
    operation* next = nullptr;
    int result = 0;
  };

  virtual ~reader() = default;
  virtual void start(operation& op) = 0;  // Does not throw.

  // Whether it populates fresh memory itself, in the thread that then fills it. If not, populate it
  // before the read: page faults would be handled one by one in the engine thread.
  virtual bool populates() const noexcept = 0;
};

// Completes with a number of bytes, or -errno, once the kernel no longer writes to the memory. Not
// cancellable: a read that the drive has begun cannot be.
inline boost::asio::awaitable<int> read(reader& with, const read_request& what) {
  return detail::transfer(with, what);
}

}  // namespace ringload::inline v0
