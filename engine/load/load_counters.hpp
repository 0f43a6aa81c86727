// SPDX-License-Identifier: Apache-2.0
#pragma once

// The counters of one load, which `load_stats` reports. A load with a window (see load_window.hpp)
// loads its tensors in groups, which all use the counters of the load. Counters may be read and
// changed in any thread.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <ringload/byte_source.hpp>
#include <ringload/stats.hpp>
#include <string>

#include "io/header_reader.hpp"
#include "load/file_counters.hpp"

namespace ringload::inline v0::detail {

class load_counters {
 public:
  std::optional<file_counters> per_file;  // Set before the load starts, constant afterwards.
  std::atomic<std::uint64_t> bytes = 0;   // Bytes of all loaded tensors.
  std::atomic<std::uint64_t> bytes_total = 0;
  std::atomic<std::uint64_t> tensors = 0;  // Number of loaded tensors.
  std::atomic<std::uint64_t> tensors_total = 0;
  std::atomic<std::uint64_t> bytes_direct = 0;
  std::atomic<std::uint64_t> bytes_buffered = 0;
  std::atomic<std::uint64_t> bytes_unstaged = 0;
  std::atomic<std::uint64_t> bytes_gpu_direct = 0;
  std::atomic<std::uint64_t> bytes_mapped = 0;
  std::atomic<std::uint64_t> bytes_verified = 0;
  std::atomic<std::uint64_t> files_unverified = 0;
  std::atomic<std::uint64_t> header_bytes = 0;
  std::atomic<std::uint64_t> reads = 0;
  std::atomic<std::uint64_t> short_reads = 0;
  std::atomic<std::uint64_t> retries = 0;
  std::atomic<std::uint64_t> device_wait_nanoseconds = 0;
  std::atomic<std::uint64_t> memory_wait_nanoseconds = 0;
  second_read_counts second_reads;
  std::atomic<bool> memory_kept = false;

  std::atomic<std::uint64_t> bytes_remote = 0;
  transfer_counts transfers;

  void add_remote(bool unstaged, int arrived) noexcept {
    bytes_remote += static_cast<unsigned>(arrived);
    if (unstaged) bytes_unstaged += static_cast<unsigned>(arrived);
  }
  void add_read(bool direct, bool unstaged, int arrived) noexcept {
    (direct ? bytes_direct : bytes_buffered) += static_cast<unsigned>(arrived);
    if (unstaged) bytes_unstaged += static_cast<unsigned>(arrived);
  }

  std::chrono::steady_clock::time_point begun() const noexcept { return start_time_; }
  // set_opened(), set_first_tensor() and set_ended() record the times of events of the load.
  void set_opened() noexcept { opened_at_ = nanoseconds_since_begun(); }
  void set_first_tensor() noexcept {
    if (first_tensor_at_ == 0) first_tensor_at_ = nanoseconds_since_begun();
  }
  void set_ended() noexcept {
    if (ended_at_ == 0) ended_at_ = nanoseconds_since_begun();
  }

  // Records why a file is not read with O_DIRECT. Only the first reason is kept.
  void set_route_reason(const std::string& reason);
  // Records why a read does not use GPUDirect Storage. Only the first reason is kept.
  void set_gpu_direct_reason(const std::string& reason);

  void fill_stats(load_stats& stats) const;

 private:
  using clock = std::chrono::steady_clock;

  std::int64_t nanoseconds_since_begun() const noexcept;

  const clock::time_point start_time_ = clock::now();
  // In nanoseconds since start_time_. The value 0 means that the event has not happened.
  std::atomic<std::int64_t> opened_at_ = 0;
  std::atomic<std::int64_t> first_tensor_at_ = 0;
  std::atomic<std::int64_t> ended_at_ = 0;
  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::string route_reason_;
  std::string gpu_direct_reason_;
};

}  // namespace ringload::inline v0::detail
