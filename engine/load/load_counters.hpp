// SPDX-License-Identifier: Apache-2.0
#pragma once

// The counters of one load, for load_stats. Any thread may read and count at any time.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <ringload/byte_source.hpp>
#include <ringload/stats.hpp>
#include <string>

namespace ringload::inline v0::detail {

class load_counters {
 public:
  std::atomic<std::uint64_t> bytes = 0;  // Bytes of loaded tensors.
  std::atomic<std::uint64_t> bytes_total = 0;
  std::atomic<std::uint64_t> tensors = 0;  // Loaded tensors.
  std::atomic<std::uint64_t> tensors_total = 0;
  std::atomic<std::uint64_t> bytes_direct = 0;
  std::atomic<std::uint64_t> bytes_buffered = 0;
  std::atomic<std::uint64_t> bytes_straight = 0;
  std::atomic<std::uint64_t> bytes_mapped = 0;
  std::atomic<std::uint64_t> bytes_verified = 0;
  std::atomic<std::uint64_t> reads = 0;
  std::atomic<std::uint64_t> short_reads = 0;
  std::atomic<std::uint64_t> retries = 0;
  std::atomic<std::uint64_t> device_wait_nanoseconds = 0;
  std::atomic<std::uint64_t> memory_wait_nanoseconds = 0;
  std::atomic<bool> memory_kept = false;

  std::atomic<std::uint64_t> bytes_remote = 0;
  transfer_counts transfers;

  void add_remote(bool straight, int arrived) noexcept {
    bytes_remote += static_cast<unsigned>(arrived);
    if (straight) bytes_straight += static_cast<unsigned>(arrived);
  }
  void add_read(bool direct, bool straight, int arrived) noexcept {
    (direct ? bytes_direct : bytes_buffered) += static_cast<unsigned>(arrived);
    if (straight) bytes_straight += static_cast<unsigned>(arrived);
  }

  std::chrono::steady_clock::time_point begun() const noexcept { return begun_; }
  // The load has reached these points.
  void set_opened() noexcept { opened_at_ = nanoseconds_since_begun(); }
  void set_first_tensor() noexcept {
    if (first_tensor_at_ == 0) first_tensor_at_ = nanoseconds_since_begun();
  }
  void set_ended() noexcept { ended_at_ = nanoseconds_since_begun(); }

  // The reason why a file is not read directly. Keeps the first reason.
  void set_route_reason(const std::string& reason);

  // Fills the fields of a single load.
  void fill_stats(load_stats& stats) const;

 private:
  using clock = std::chrono::steady_clock;

  std::int64_t nanoseconds_since_begun() const noexcept;

  const clock::time_point begun_ = clock::now();
  // Nanoseconds after begun_, or 0 if not reached.
  std::atomic<std::int64_t> opened_at_ = 0;
  std::atomic<std::int64_t> first_tensor_at_ = 0;
  std::atomic<std::int64_t> ended_at_ = 0;
  mutable std::mutex mutex_;
  std::string route_reason_;  // Guarded by the mutex.
};

}  // namespace ringload::inline v0::detail
