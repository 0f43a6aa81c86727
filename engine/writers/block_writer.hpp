// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface to what writes files: io_uring, or threads that call pwrite.

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>

#include "readers/awaited_transfer.hpp"

namespace ringload::inline v0 {

struct write_request {
  int fd = -1;
  bool direct = false;  // `fd` was opened with O_DIRECT, and all below is aligned for it.
  std::uint32_t bytes = 0;
  std::uint64_t file_offset = 0;
  const std::byte* from = nullptr;
  int registered_buffer = -1;  // The index of the registered buffer that `from` lies in, or -1.
};

class block_writer {
 public:
  // It and the memory it points to must stay valid until `done` is called.
  struct operation {
    write_request what;
    // In the engine thread, once, never from inside start(): a number of bytes, or -errno.
    void (*done)(operation& self, int res) = nullptr;
  };

  virtual ~block_writer() = default;
  virtual void start(operation& op) = 0;  // Does not throw.
};

// Completes with a number of bytes, or -errno, once the kernel no longer reads the memory. Not
// cancellable: a write that the drive has begun cannot be.
inline boost::asio::awaitable<int> write(block_writer& with, const write_request& what) {
  return detail::transfer(with, what);
}

}  // namespace ringload::inline v0
