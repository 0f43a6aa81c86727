// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of all queues that read and write files.

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ringload/byte_source.hpp>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "base/fault.hpp"
#include "base/retry_allocation.hpp"
#include "base/work_interval.hpp"
#include "io/ring/completion.hpp"

namespace ringload::inline v0 {

// A function that supplies bytes instead of a file. Called in a thread that may block. Returns
// -errno or a number of bytes, which is smaller than requested only at the end of the file. In
// addition to -errno, may set `problem` to a more precise error.
using byte_supply =
    std::function<std::int64_t(int fd, std::uint64_t file_offset, std::span<std::byte> into,
                               boost::system::error_code& problem)>;

struct io_request {
  bool is_write = false;
  int fd = -1;
  // If true, `fd` is open with O_DIRECT, and size, offset and address are aligned for O_DIRECT.
  bool direct = false;
  std::uint32_t bytes = 0;
  std::uint64_t file_offset = 0;
  std::byte* memory = nullptr;  // A write does not change the memory.
  int registered_buffer = -1;   // Index of the registered buffer that contains `memory`, or -1.

  // The object that is written instead of a file. Used only by object_queue.
  byte_target* target = nullptr;
  fault* object_failed = nullptr;  // Receives the fault of an object if the result is -EIO.

  // ---- Only for reads ----

  // True if the file is on a distant mount: see is_distant() in io/block_device_id.hpp. FUSE blocks
  // the thread that submits a read while the mount has too many requests in progress.
  bool is_distant = false;
  // True if the page cache should not keep the bytes after a buffered read. Used only by pool_io.
  bool uncached = false;
  // True if pages of `memory` may not be present yet. The queue makes the pages present (populates
  // the memory) if populates() returns true.
  bool fresh = false;
  // True if a caller waits for the read, so that its completion must not be delayed.
  bool awaited = false;
  const byte_supply* supply = nullptr;  // Called instead of pread(). Used only by pool_io.
  boost::system::error_code* supply_failed = nullptr;  // Receives the `problem` of `supply`.
  // The object that is read instead of a file. Used only by object_queue.
  byte_source* object = nullptr;
  const std::stop_token* stop = nullptr;  // Used only for a read of an object.
  transfer_counts* counts = nullptr;
  work_interval* times = nullptr;  // Records when a thread reads. Null if the load is not traced.
};

class io_queue {
 public:
  // `done` is called in the thread of the event loop, and never before start() has returned. The
  // memory of the request must stay valid until `done` is called.
  struct operation : io_completion {
    io_request request;
    int result = 0;  // Used only by the queue.
  };

  virtual ~io_queue() = default;
  virtual void start(operation& op) = 0;  // Must not throw.

  // Returns true if the threads of the queue populate the memory of a `fresh` read. Otherwise the
  // caller must populate the memory before the read. If nobody populates the memory, the engine
  // thread handles the page faults one after another.
  virtual bool populates() const noexcept = 0;
};

// An operation, and the handler that resumes the awaiting coroutine.
template <class Handler>
struct awaited_operation final : io_queue::operation {
  explicit awaited_operation(Handler&& h) : handler(std::move(h)) {}
  Handler handler;
};

struct start_awaited {
  template <class Handler>
  void operator()(Handler&& handler, io_queue* queue, const io_request& request) const {
    using op_type = awaited_operation<std::decay_t<Handler>>;
    auto op =
        retry_allocation([&] { return std::make_unique<op_type>(std::forward<Handler>(handler)); });
    op->request = request;
    op->done = [](io_completion& self, int res) {
      std::unique_ptr<op_type> owned(static_cast<op_type*>(&self));
      auto resume = std::move(owned->handler);
      // Frees the operation before the handler is called, because the handler may need the memory.
      owned.reset();
      std::move(resume)(res);
    };
    queue->start(*op.release());
  }
};

// Carries out a request, and returns a number of bytes, or -errno. Returns only when the kernel no
// longer uses the memory. The wait cannot be cancelled, because a drive cannot cancel a transfer.
inline boost::asio::awaitable<int> await_io(io_queue& queue, const io_request& request) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(int)>(
      start_awaited(), boost::asio::use_awaitable, &queue, request);
}

}  // namespace ringload::inline v0
