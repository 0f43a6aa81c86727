// SPDX-License-Identifier: Apache-2.0
#pragma once

// Bounds the bytes that a drive reads at once. A read waits here until its bytes fit. Reads that a
// caller awaits are admitted first, then reads in the order of arrival. Engine thread only.

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <ringload/options.hpp>

#include "runtime/queue_depth_tuner.hpp"
#include "runtime/wait_queue.hpp"

namespace ringload::inline v0::detail {

// Returns the first bound: the bytes_in_flight of the options, or the first value of the tuner.
std::uint64_t first_bytes_in_flight(const loader_options& within) noexcept;

class admission_control {
 public:
  admission_control(boost::asio::io_context& loop, const loader_options& within);

  boost::asio::awaitable<void> acquire(std::uint64_t bytes, bool awaited);
  void release(std::uint64_t bytes);

  // A larger read is admitted when no other read is in flight. Any thread.
  std::uint64_t bytes_max() const noexcept { return tuner_ ? tuner_->bytes() : fixed_bytes_max_; }

 private:
  bool has_room_for(std::uint64_t bytes) const noexcept {
    return bytes_in_flight_ == 0 || bytes_in_flight_ + bytes <= bytes_max();
  }
  void admit_waiting();

  wait_queue awaited_;
  wait_queue unawaited_;
  const std::uint64_t fixed_bytes_max_;  // 0: the tuner finds the bound.
  std::optional<queue_depth_tuner> tuner_;
  // Exceeds bytes_max() only with a single read, or after the tuner has lowered the bound.
  std::uint64_t bytes_in_flight_ = 0;
};

// RAII guard that releases the bytes of acquire().
class admission_guard {
 public:
  admission_guard(admission_control& admission, std::uint64_t bytes, bool awaited) noexcept
      : admission_(admission), bytes_(bytes), awaited_(awaited) {}
  admission_guard(const admission_guard&) = delete;
  admission_guard& operator=(const admission_guard&) = delete;
  ~admission_guard() {
    if (acquired_) admission_.release(bytes_);
  }

  boost::asio::awaitable<void> acquire() {
    admission_control& admission = admission_;
    co_await admission.acquire(bytes_, awaited_);
    acquired_ = true;
  }

 private:
  admission_control& admission_;
  const std::uint64_t bytes_;
  const bool awaited_;
  bool acquired_ = false;
};

}  // namespace ringload::inline v0::detail
