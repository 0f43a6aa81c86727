// SPDX-License-Identifier: Apache-2.0
#pragma once

// One io_uring connected to one io_context by an eventfd.
//
// Only the thread that creates the ring may use it, and that thread must run the io_context. Reads
// and writes that are started in one iteration of the loop are submitted together at its end.

#include <liburing.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/fault.hpp"
#include "io/ring/setup.hpp"

namespace ringload::inline v0 {

class ring {
 public:
  // Must stay at its address until `done` is called, because the kernel's entry points to it.
  struct completion {
    void (*done)(completion& self, int res) = nullptr;
    completion* next = nullptr;  // Next prepared entry.
  };

  struct read {
    int fd;
    void* into;
    std::uint32_t bytes;
    std::uint64_t file_offset;
    int registered_buffer;  // Index of the registered buffer that contains `into`, or -1.
    // Runs in a kernel worker (IOSQE_ASYNC). Otherwise io_uring_submit itself would copy page cache
    // hits one after another.
    bool by_kernel_worker;
  };

  struct write {
    int fd;
    const void* from;
    std::uint32_t bytes;
    std::uint64_t file_offset;
    int registered_buffer;  // As in `read`.
  };

  // The caller must not start more than `depth` reads and writes at once.
  static result<std::unique_ptr<ring>> make(boost::asio::io_context& loop, unsigned depth);

  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  // Must not run while an operation is in flight: closing a ring does not wait for the drive, which
  // would then use freed memory.
  ~ring();

  // Calls `done` from the loop, never from start(). If the kernel refuses every submission while
  // nothing is in flight, `done` receives its error after refused_max.
  void start(const read& request, completion& op) { enqueue(request, op); }
  void start(const write& request, completion& op) { enqueue(request, op); }

  // Creates a table of `count` registered buffers without memory. Needs Linux 5.19. If this or
  // register_buffer() fails, reads use no registered buffer.
  boost::system::error_code open_buffers(unsigned count);
  // Sets the memory of one buffer, at most 1 GiB. Other reads may be in flight.
  boost::system::error_code register_buffer(unsigned index, const ::iovec& memory);

  // Limits the kernel threads for reads with `by_kernel_worker`.
  void limit_workers(unsigned threads);

  // Ends the wait on the eventfd, so that the loop can run out of work.
  void stop();

  unsigned in_kernel() const noexcept { return in_kernel_; }
  const std::string& flags() const noexcept { return setup_.flags; }

  // Thread-safe.
  std::uint64_t longest_submit_nanoseconds() const noexcept { return longest_submit_.load(); }

 private:
  ring(boost::asio::io_context& loop, unsigned depth);

  result<void> open();
  void wait();
  void reap();
  template <class Transfer>
  void enqueue(const Transfer& request, completion& op);
  static void prepare(::io_uring_sqe& sqe, const read& request) noexcept;
  static void prepare(::io_uring_sqe& sqe, const write& request) noexcept;
  void submit_soon();
  void submit();
  void fail_prepared();

  static constexpr std::chrono::milliseconds refused_max{1000};

  boost::asio::io_context& loop_;
  const unsigned depth_;

  // Only the creating thread uses the members below.
  ::io_uring ring_ = {};
  bool is_open_ = false;
  ring_setup setup_;
  boost::asio::posix::stream_descriptor event_fd_;
  std::uint64_t event_count_ = 0;         // Read from the eventfd, not used.
  unsigned prepared_ = 0;                 // Not submitted yet; at most the ring's size.
  completion* first_prepared_ = nullptr;  // Prepared entries, in the order of start().
  completion* last_prepared_ = nullptr;
  int fatal_error_ = 0;  // The error that ended all submissions, or 0.
  std::chrono::steady_clock::time_point refused_since_ =
      {};                   // Zero: the last submission succeeded.
  unsigned in_kernel_ = 0;  // Submitted but not completed; at most depth_.
  bool submit_posted_ = false;
  std::atomic<std::uint64_t> longest_submit_ = 0;
};

extern template void ring::enqueue(const read& request, completion& op);
extern template void ring::enqueue(const write& request, completion& op);

}  // namespace ringload::inline v0
