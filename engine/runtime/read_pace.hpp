// SPDX-License-Identifier: Apache-2.0
#pragma once

// Predicts how long the reads of a mount take, so that a read that stalls can be issued a second
// time. The model has a latency and a bandwidth. A read takes the latency, plus the time to
// transfer its own bytes and the bytes that were in flight before. The latency and the bandwidth
// are measured while loads run. Pure arithmetic: the caller passes all times.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace ringload::inline v0::detail {

class read_pace {
 public:
  using clock = std::chrono::steady_clock;

  struct started_read {
    std::uint64_t bytes = 0;
    std::uint64_t bytes_before = 0;  // Bytes that were in flight when the read started.
    clock::time_point started_at = {};
  };

  // Reports the end of a read.
  void completed(const started_read& read, clock::time_point now) noexcept;

  // Returns the time at which the read is late, as far as is known now. Returns an empty optional
  // before the first reads were measured. There are two reasons to be late:
  //   - The read takes too long for the bytes that were in flight at its start.
  //   - No read completes for too long, except reads that had stalled. This finds a stalled read at
  //     the end of a load, when few reads are left. The first rule would wait longer, because it
  //     allows time for all bytes that were in flight at the start of the read.
  std::optional<clock::time_point> late_at(const started_read& read) const noexcept;

 private:
  double latency() const noexcept {
    return std::max(0.0, shortest_ - static_cast<double>(shortest_bytes_) * seconds_per_byte_);
  }
  void measure(std::uint64_t bytes, double seconds) noexcept;

  // The largest read so far, and the shortest time of a read of at least half of this size.
  std::uint64_t largest_bytes_ = 0;
  double shortest_ = 0;
  std::uint64_t shortest_bytes_ = 0;

  double seconds_per_byte_ = 0;  // 0 before the first measurement.
  std::optional<clock::time_point> last_completed_;
  // The last completion of a read that no later read had overtaken, and the start of this read.
  // When a read ends that had stalled, the mount has not come closer to the other reads.
  clock::time_point last_in_order_ = {};
  clock::time_point newest_start_ = {};

  // The current measurement of the bandwidth. The time of a read begins at the previous completion,
  // or at the start of the read if the start is later.
  double measured_seconds_ = 0;
  std::uint64_t measured_bytes_ = 0;
  std::uint32_t measured_reads_ = 0;
};

}  // namespace ringload::inline v0::detail
