// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface to what writes files: io_uring, or threads that call pwrite.

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/retry_allocation.hpp"

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

namespace detail {

// The operation and its completion handler, which resumes a coroutine.
template <class Handler>
struct waiting_write final : block_writer::operation {
  explicit waiting_write(Handler&& h) : handler(std::move(h)) {}
  Handler handler;
};

struct start_write {
  template <class Handler>
  void operator()(Handler&& handler, block_writer* with, const write_request& what) const {
    using op_type = waiting_write<std::decay_t<Handler>>;
    auto op =
        retry_allocation([&] { return std::make_unique<op_type>(std::forward<Handler>(handler)); });
    op->what = what;
    op->done = [](block_writer::operation& self, int res) {
      std::unique_ptr<op_type> mine(static_cast<op_type*>(&self));
      auto resume = std::move(mine->handler);
      mine.reset();
      std::move(resume)(res);
    };
    with->start(*op.release());
  }
};

}  // namespace detail

// Completes with a number of bytes, or -errno, once the kernel no longer reads the memory. Not
// cancellable: a write that the drive has begun cannot be.
inline boost::asio::awaitable<int> write(block_writer& with, const write_request& what) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(int)>(
      detail::start_write(), boost::asio::use_awaitable, &with, what);
}

}  // namespace ringload::inline v0
