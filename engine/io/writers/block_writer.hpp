// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of everything that writes files: io_uring, or threads that call pwrite.

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>

#include "io/await_io.hpp"

namespace ringload::inline v0 {

struct write_request {
  int fd = -1;
  bool direct = false;  // `fd` was opened with O_DIRECT, and all members below are aligned for it.
  std::uint32_t bytes = 0;
  std::uint64_t file_offset = 0;
  const std::byte* from = nullptr;
  int registered_buffer = -1;  // Index of the registered buffer that contains `from`, or -1.
};

class block_writer {
 public:
  // The operation and its memory must stay valid until `done` is called.
  struct operation {
    write_request request;
    // Called once in the engine thread, never from inside start(), with a byte count or -errno.
    void (*done)(operation& self, int res) = nullptr;
  };

  virtual ~block_writer() = default;
  virtual void start(operation& op) = 0;  // Must not throw.
};

// Returns a byte count or -errno once the kernel no longer reads the memory. Cannot be cancelled,
// because the drive cannot cancel a write.
inline boost::asio::awaitable<int> write(block_writer& file_writer, const write_request& request) {
  return detail::transfer(file_writer, request);
}

}  // namespace ringload::inline v0
