// SPDX-License-Identifier: Apache-2.0
#pragma once

// Counts the bytes that a load reads from each file, and records the times of the reads and copies.
// The engine thread writes the counters. stats() may be called from any thread.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ringload/stats.hpp>
#include <vector>

namespace ringload::inline v0::detail {

class file_counters {
 public:
  using clock = std::chrono::steady_clock;

  file_counters(clock::time_point load_start, std::size_t files)
      : load_start_(load_start), files_(files) {}

  void begin_read(std::uint32_t file) noexcept {
    if (files_[file].begun_at == 0) files_[file].begun_at = nanoseconds();
  }
  void add_bytes(std::uint32_t file, int bytes) noexcept {
    files_[file].bytes += static_cast<unsigned>(bytes);
    files_[file].arrived_at = nanoseconds();
  }
  void copied(std::uint32_t file, std::uint64_t nanoseconds) noexcept {
    files_[file].copying += nanoseconds;
  }

  std::vector<file_stats> stats() const {
    std::vector<file_stats> all(files_.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::int64_t begun_at = files_[i].begun_at;
      all[i].bytes_read = files_[i].bytes;
      all[i].seconds_device_wait = static_cast<double>(files_[i].copying.load()) * 1e-9;
      const std::int64_t arrived_at = files_[i].arrived_at;
      all[i].seconds_to_first_read = static_cast<double>(begun_at) * 1e-9;
      if (arrived_at == 0) continue;
      all[i].seconds_reading = static_cast<double>(arrived_at - begun_at) * 1e-9;
    }
    return all;
  }

 private:
  // Counters of one file. Times are in nanoseconds since load_start_. The value 0 means that the
  // event has not happened.
  struct counter {
    std::atomic<std::uint64_t> bytes = 0;
    std::atomic<std::int64_t> begun_at = 0;
    std::atomic<std::int64_t> arrived_at = 0;
    std::atomic<std::uint64_t> copying = 0;  // Duration of all copies, in nanoseconds.
  };

  std::int64_t nanoseconds() const noexcept {
    return std::chrono::nanoseconds(clock::now() - load_start_).count();
  }

  const clock::time_point load_start_;
  std::vector<counter> files_;  // Indexed by file number of the checkpoint.
};

}  // namespace ringload::inline v0::detail
