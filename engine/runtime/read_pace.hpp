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

#include "io/late_read.hpp"

namespace ringload::inline v0::detail {

class read_pace {
 public:
  using clock = std::chrono::steady_clock;

  struct started_read {
    std::uint64_t bytes = 0;
    std::uint64_t bytes_before = 0;  // Bytes that were in flight when the read started.
    clock::time_point started_at = {};
    std::uint64_t completed_before = 0;  // Bytes that had been read when the read started.
    bool is_repeated = false;            // True for a second or third read of the same bytes.
    // True if this read was faster than a second read of the same bytes.
    bool was_repeated = false;
  };

  // Describes a read that starts now.
  started_read start(std::uint64_t bytes, std::uint64_t bytes_before,
                     clock::time_point now) const noexcept {
    return {bytes, bytes_before, now, completed_bytes_, false, false};
  }

  // Reports the end of a read. If the read was issued again, `read` must describe the fastest of
  // the reads.
  void completed(const started_read& read, clock::time_point now) noexcept;

  // Returns the time at which the read is late, as far as is known now. Returns an empty optional
  // before the first reads were measured. The time is the earlier one of two limits:
  //   - The first limit begins at the start of the read. It allows for the latency, for all bytes
  //     that were in flight at the start, and for the read itself.
  //   - The second limit begins at the last completion of a read that had not stalled. It allows
  //     for the bytes that are still ahead of the read, and for the read itself. This limit finds a
  //     stalled read at the end of a load, when few reads are left. The limit is shorter on a
  //     steady mount, because a stalled last read delays the end of the load.
  std::optional<clock::time_point> late_at(const started_read& read) const noexcept;

  // Returns the time at which late_at() must be called again. After a completion, late_at() can
  // return an earlier time, because fewer bytes are ahead of the read. If completions are in order
  // and the mount remains as it is, the read is not late before the time that check_at() returns.
  std::optional<clock::time_point> check_at(const started_read& read,
                                            clock::time_point now) const noexcept;

 private:
  double latency() const noexcept {
    return std::max(0.0, shortest_ - static_cast<double>(shortest_bytes_) * seconds_per_byte_);
  }
  // Returns the bytes that were in flight when the read started and are still in flight. Later
  // reads that completed first are subtracted too, so the result can be too small.
  std::uint64_t bytes_ahead(const started_read& read) const noexcept {
    const std::uint64_t since_start = completed_bytes_ - read.completed_before;
    return read.bytes_before > since_start ? read.bytes_before - since_start : 0;
  }
  double seconds_of_bytes(std::uint64_t bytes) const noexcept {
    return static_cast<double>(bytes) * seconds_per_byte_;
  }
  void measure(std::uint64_t bytes, double seconds) noexcept;
  void count_steadiness(const started_read& read, clock::time_point now) noexcept;
  bool is_steady() const noexcept {
    return counted_ >= counted_min && needless_ * reads_per_needless_read <= counted_;
  }
  const lateness& allowed_quiet() const noexcept {
    return is_steady() ? steady_lateness : usual_lateness;
  }
  clock::time_point late_by_quiet(const started_read& read, const lateness& allowed) const noexcept;

  // A mount is steady if at most one in this number of reads was issued again needlessly, or would
  // have been issued again needlessly with steady_lateness.
  static constexpr std::uint32_t reads_per_needless_read = 20;
  static constexpr std::uint32_t counted_min = 32;
  static constexpr std::uint32_t counted_max = 256;  // At this value, both counts are halved.
  std::uint32_t counted_ = 0;
  std::uint32_t needless_ = 0;

  // The largest read so far, and the shortest time of a read of at least half of this size.
  std::uint64_t largest_bytes_ = 0;
  double shortest_ = 0;
  std::uint64_t shortest_bytes_ = 0;

  std::uint64_t completed_bytes_ = 0;
  double seconds_per_byte_ = 0;  // 0 before the first measurement.
  std::optional<clock::time_point> last_completed_;
  // The time of the last completion in order, and the start of the completed read. A completion is
  // in order if no read that started later has completed before. A read that had stalled completes
  // out of order, and its end shows no progress of the other reads. A repeated read changes only
  // last_in_order_, because reads that started before the repeated read need not have stalled.
  clock::time_point last_in_order_ = {};
  clock::time_point newest_start_ = {};

  // The current measurement of the bandwidth. The time of a read begins at the previous completion,
  // or at the start of the read if the start is later.
  double measured_seconds_ = 0;
  std::uint64_t measured_bytes_ = 0;
  std::uint32_t measured_reads_ = 0;
};

}  // namespace ringload::inline v0::detail
