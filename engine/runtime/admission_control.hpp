// SPDX-License-Identifier: Apache-2.0
#pragma once

// Bounds the bytes that the drive reads at once. A read waits here until there is room for it:
// reads that somebody awaits first, otherwise first come, first served. Engine thread only.

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <ringload/options.hpp>

#include "runtime/queue_depth_tuner.hpp"
#include "runtime/wait_queue.hpp"

namespace ringload::inline v0::detail {

// What it begins with: as ordered, or where the tuner begins.
std::uint64_t first_bytes_in_flight(const loader_options& within) noexcept;

class admission_control {
 public:
  admission_control(boost::asio::io_context& loop, const loader_options& within);

  boost::asio::awaitable<void> acquire(std::uint64_t bytes, bool awaited);
  void release(std::uint64_t bytes);

  // A read larger than this is admitted when nothing else is in flight. Any thread.
  std::uint64_t bytes_max() const noexcept { return tuner_ ? tuner_->bytes() : fixed_bytes_max_; }

 private:
  bool has_room_for(std::uint64_t bytes) const noexcept {
    return bytes_in_flight_ == 0 || bytes_in_flight_ + bytes <= bytes_max();
  }
  void admit_waiting();

  wait_queue awaited_;
  wait_queue others_;
  const std::uint64_t fixed_bytes_max_;  // 0: the tuner finds it.
  std::optional<queue_depth_tuner> tuner_;
  // Above bytes_max() only with a single read, or after the tuner has lowered it.
  std::uint64_t bytes_in_flight_ = 0;
};

// RAII guard: gives back what acquire() took.
class admission_guard {
 public:
  admission_guard(admission_control& from, std::uint64_t bytes, bool awaited) noexcept
      : from_(from), bytes_(bytes), awaited_(awaited) {}
  admission_guard(const admission_guard&) = delete;
  admission_guard& operator=(const admission_guard&) = delete;
  ~admission_guard() {
    if (acquired_) from_.release(bytes_);
  }

  boost::asio::awaitable<void> acquire() {
    admission_control& from = from_;
    co_await from.acquire(bytes_, awaited_);
    acquired_ = true;
  }

 private:
  admission_control& from_;
  const std::uint64_t bytes_;
  const bool awaited_;
  bool acquired_ = false;
};

}  // namespace ringload::inline v0::detail
