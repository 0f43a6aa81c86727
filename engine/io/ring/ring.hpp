// SPDX-License-Identifier: Apache-2.0
#pragma once

// One io_uring that is connected to one io_context by an eventfd. The ring carries out the direct
// reads and writes of the engine.
//
// The thread that creates the ring must run the io_context, and only this thread may use the ring.
// Reads and writes that are started in one iteration of the loop are submitted together at the end
// of the iteration.

#include <liburing.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/fault.hpp"
#include "io/ring/completion.hpp"
#include "io/ring/setup.hpp"

namespace ringload::inline v0 {

class ring {
 public:
  struct transfer {
    int fd;
    void* memory;
    std::uint32_t bytes;
    std::uint64_t file_offset;
    int registered_buffer;  // Index of the registered buffer that contains `memory`, or -1.
    // True if the transfer must run in a thread of the kernel (IOSQE_ASYNC). Without this flag,
    // io_uring_submit itself would copy bytes from the page cache, one transfer after another, and
    // could block in a file system of FUSE.
    bool by_kernel_worker;
    bool is_write = false;
  };

  static result<std::unique_ptr<ring>> make(boost::asio::io_context& loop, unsigned depth);

  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  // No operation may be in flight, because the drive could write to freed memory.
  ~ring();

  // Starts a read or write. `done` is called from the loop, never from start(). `done` receives the
  // error of the kernel if the kernel refuses all submissions for refusal_timeout while no
  // operation is in flight.
  void start(const transfer& request, io_completion& op);

  // Creates a table of `count` registered buffers without memory. Needs Linux 5.19. If this
  // function or register_buffer() fails, the caller must set each `registered_buffer` to -1.
  boost::system::error_code open_buffers(unsigned count);
  // Sets the memory of one buffer, at most 1 GiB. Other reads may be in flight.
  boost::system::error_code register_buffer(unsigned index, const ::iovec& memory);

  // Limits the number of kernel threads for transfers with `by_kernel_worker`.
  void limit_workers(unsigned threads);

  // Ends the wait for the eventfd, so that the loop can end when the loop has no other work.
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
  void submit_soon();
  void submit();
  void fail_prepared();

  static constexpr std::chrono::milliseconds refusal_timeout{1000};

  boost::asio::io_context& loop_;
  const unsigned depth_;

  // Only the creating thread uses the members below, except longest_submit_.
  ::io_uring ring_ = {};
  bool is_open_ = false;
  ring_setup setup_;
  boost::asio::posix::stream_descriptor event_fd_;
  std::uint64_t event_count_ = 0;  // Read from the eventfd. The value is not used.
  // Number of entries that are not yet submitted. At most the size of the ring.
  unsigned prepared_ = 0;
  io_completion* first_prepared_ = nullptr;  // Prepared entries, in the order of start().
  io_completion* last_prepared_ = nullptr;
  int fatal_error_ = 0;  // The error that ended all submissions, or 0.
  // Time of the first refusal since the last successful submission. Zero if the last submission
  // succeeded.
  std::chrono::steady_clock::time_point refused_since_ = {};
  unsigned in_kernel_ = 0;  // Number of submitted entries that are not completed. At most depth_.
  bool submit_posted_ = false;
  std::atomic<std::uint64_t> longest_submit_ = 0;
};

}  // namespace ringload::inline v0
