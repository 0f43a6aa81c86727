// SPDX-License-Identifier: Apache-2.0
#pragma once

// One io_uring joined to one io_context by an eventfd.
//
// Used only by the thread that makes it, which runs the io_context. Reads and writes started in one
// iteration of the loop are submitted together at its end.

#include <liburing.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/fault.hpp"
#include "ring/setup.hpp"

namespace ringload::inline v0 {

class ring {
 public:
  // Must stay at its address until `done` is called: it is the user data of the kernel's entry.
  struct completion {
    void (*done)(completion& self, int res) = nullptr;
    completion* next = nullptr;  // In the list of prepared ones.
  };

  struct read {
    int fd;
    void* into;
    std::uint32_t bytes;
    std::uint64_t file_offset;
    int registered_buffer;  // The index of the registered buffer that `into` lies in, or -1.
    bool by_kernel_worker;  // Runs in a kernel worker (IOSQE_ASYNC): a page cache hit would
                            // otherwise be copied inside io_uring_submit, one after the other.
  };

  struct write {
    int fd;
    const void* from;
    std::uint32_t bytes;
    std::uint64_t file_offset;
    int registered_buffer;  // As in a read.
  };

  // At most `depth` reads and writes at once, which the caller must observe.
  static result<std::unique_ptr<ring>> make(boost::asio::io_context& loop, unsigned depth);

  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  // Nothing may be in flight: closing a ring does not wait for the drive, which would use freed
  // memory.
  ~ring();

  // `done` is called from the loop, never from here. If the kernel refuses every submission while
  // nothing is in flight, `done` gets its error after refused_max.
  void start(const read& what, completion& op) { enqueue(what, op); }
  void start(const write& what, completion& op) { enqueue(what, op); }

  // Makes a table of so many registered buffers, none of which has memory yet. From Linux 5.19 on.
  // On failure, here and below, reads simply use no registered buffer.
  boost::system::error_code open_buffers(unsigned count);
  // Gives one of them its memory, at most 1 GiB. Other reads may be in flight.
  boost::system::error_code register_buffer(unsigned index, const ::iovec& memory);

  // Bounds the kernel threads that carry out reads `by_kernel_worker`.
  void limit_workers(unsigned threads);

  // Ends the wait on the eventfd, so that the loop can run out of work.
  void stop();

  unsigned in_kernel() const noexcept { return in_kernel_; }
  const std::string& flags() const noexcept { return setup_.flags; }

  // May be read by any thread.
  std::uint64_t longest_submit_nanoseconds() const noexcept { return longest_submit_.load(); }

 private:
  ring(boost::asio::io_context& loop, unsigned depth);

  result<void> open();
  void wait();
  void reap();
  template <class Transfer>
  void enqueue(const Transfer& what, completion& op);
  static void prepare(::io_uring_sqe& sqe, const read& what) noexcept;
  static void prepare(::io_uring_sqe& sqe, const write& what) noexcept;
  void submit_soon();
  void submit();
  void fail_prepared();

  static constexpr std::chrono::milliseconds refused_max{1000};

  boost::asio::io_context& loop_;
  const unsigned depth_;

  // The rest is touched only by the thread that made it.
  ::io_uring ring_ = {};
  bool made_ = false;
  ring_setup setup_;
  boost::asio::posix::stream_descriptor event_fd_;
  std::uint64_t event_count_ = 0;         // Read from the eventfd, not used.
  unsigned prepared_ = 0;                 // Not yet submitted; never above the ring's size.
  completion* first_prepared_ = nullptr;  // A list, in the order of starting.
  completion* last_prepared_ = nullptr;
  int fatal_error_ = 0;  // The error after which nothing is submitted any more; 0: none.
  std::chrono::steady_clock::time_point refused_since_ =
      {};                   // Zero: the last submission succeeded.
  unsigned in_kernel_ = 0;  // Submitted and not completed; never above depth_.
  bool submit_posted_ = false;
  std::atomic<std::uint64_t> longest_submit_ = 0;
};

extern template void ring::enqueue(const read& what, completion& op);
extern template void ring::enqueue(const write& what, completion& op);

}  // namespace ringload::inline v0
