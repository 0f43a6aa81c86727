// SPDX-License-Identifier: Apache-2.0
#pragma once

// One io_uring joined to one io_context by an eventfd.
//
// It belongs to the thread that makes it and runs the io_context. Reads prepared in one turn of the
// loop are submitted together at the turn's end.

#include <liburing.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/fault.hpp"
#include "ring/setup.hpp"

namespace ringload::inline v0 {

class ring {
 public:
  // Must stay where it is until `done` is called: the kernel knows its address.
  struct completion {
    void (*done)(completion& self, int res) = nullptr;
    completion* next = nullptr;  // Of those that are prepared.
  };

  struct read {
    int fd;
    void* into;
    std::uint32_t bytes;
    std::uint64_t file_offset;
    int registered_buffer;  // The index of the registered buffer that `into` lies in, or -1.
    bool by_kernel_worker;  // To be carried out by a kernel worker: what the page cache has is
                            // otherwise copied inside the submission, one read after the other.
  };

  // `depth` reads at once; the caller keeps to it.
  static result<std::unique_ptr<ring>> make(boost::asio::io_context& loop, unsigned depth);

  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  // Nothing may be in the kernel: leaving a ring does not wait for the drive, which would go on
  // writing into memory that is no longer ours.
  ~ring();

  // `done` is called from the loop, never from here. Where the kernel takes no more submissions at
  // all, and nothing of ours is with it, `done` is told why after refused_max.
  void start(const read& what, completion& op);

  // At most 1 GiB each. Refusal is no failure: reads then go unregistered.
  boost::system::error_code register_buffers(std::span<const ::iovec> buffers);

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
  static void prepare(::io_uring_sqe& sqe, const read& what, completion& op) noexcept;
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
  std::uint64_t event_count_ = 0;         // What was read from the eventfd.
  unsigned prepared_ = 0;                 // Not yet submitted; never above the ring's size.
  completion* first_prepared_ = nullptr;  // A list, in the order of starting.
  completion* last_prepared_ = nullptr;
  int fatal_error_ = 0;  // The error for which nothing is submitted any more; 0: none.
  std::chrono::steady_clock::time_point refused_since_ = {};  // Zero: the last one was taken.
  unsigned in_kernel_ = 0;  // Submitted and not completed; never above depth_.
  bool submit_posted_ = false;
  std::atomic<std::uint64_t> longest_submit_ = 0;
};

}  // namespace ringload::inline v0
