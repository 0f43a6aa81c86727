// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of everything that reads files: io_uring, or threads that call pread.

#include <boost/asio/awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ringload/byte_source.hpp>
#include <span>
#include <stop_token>

#include "base/fault.hpp"
#include "base/work_interval.hpp"
#include "io/await_io.hpp"

namespace ringload::inline v0 {

// Produces bytes in another way than reading a file, in a thread that may block. Like pread() it
// returns a byte count, which is smaller at the end, or -errno. `problem` may hold a more precise
// error.
using byte_supply =
    std::function<std::int64_t(int fd, std::uint64_t file_offset, std::span<std::byte> into,
                               boost::system::error_code& problem)>;

struct read_request {
  int fd = -1;
  bool direct = false;  // `fd` was opened with O_DIRECT, and all members below are aligned for it.
  std::uint32_t bytes = 0;
  std::uint64_t file_offset = 0;
  std::byte* into = nullptr;
  int registered_buffer = -1;  // Index of the registered buffer that contains `into`, or -1.
  bool fresh = false;          // The memory is not populated. A reader that populates() does so.
  bool awaited = false;  // A caller waits for this read, so its completion must not be delayed.
  const byte_supply* supply = nullptr;  // Used instead of pread(); only for a pool_reader.
  boost::system::error_code* supply_failed = nullptr;  // The `problem` of the supply.
  byte_source* object = nullptr;          // Read instead of a file; only for an object_reader.
  const std::stop_token* stop = nullptr;  // Only for a read of an object.
  transfer_counts* counts = nullptr;
  fault* object_failed = nullptr;  // Set if the result is -EIO.
  work_interval* times = nullptr;  // Records the work of a reading thread; null: not traced.
};

class reader {
 public:
  // The operation and its memory must stay valid until `done` is called.
  struct operation {
    read_request request;
    // Called once in the engine thread, never from inside start(), with a byte count or -errno.
    void (*done)(operation& self, int res) = nullptr;

    // For the reader: the next ended operation.
    operation* next = nullptr;
    int result = 0;
  };

  virtual ~reader() = default;
  virtual void start(operation& op) = 0;  // Must not throw.

  // Returns true if the reader populates memory in the thread that then fills it. Otherwise the
  // caller must populate it before the read, because page faults would be handled one by one in the
  // engine thread.
  virtual bool populates() const noexcept = 0;
};

// Returns a byte count or -errno once the kernel no longer writes to the memory. Cannot be
// cancelled, because the drive cannot cancel a read.
inline boost::asio::awaitable<int> read(reader& file_reader, const read_request& request) {
  return detail::transfer(file_reader, request);
}

}  // namespace ringload::inline v0
