// SPDX-License-Identifier: Apache-2.0

#include "runtime/read_pace.hpp"

namespace ringload::inline v0::detail {

namespace {

// Number of reads of one measurement of the bandwidth.
constexpr std::uint32_t reads_per_measurement = 8;
// Weight of a new measurement. The bandwidth of a mount changes, and single measurements vary.
constexpr double new_weight = 0.25;

double seconds_of(read_pace::clock::duration time) noexcept {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void read_pace::completed(const started_read& read, clock::time_point now) noexcept {
  count_steadiness(read, now);
  completed_bytes_ += read.bytes;
  const double seconds = seconds_of(now - read.started_at);
  const bool is_larger =
      read.bytes > 2 * largest_bytes_;  // Earlier reads were too small to compare.
  largest_bytes_ = std::max(largest_bytes_, read.bytes);
  const bool is_comparable = 2 * read.bytes >= largest_bytes_;
  if (is_larger || (is_comparable && seconds < shortest_)) {
    shortest_ = seconds;
    shortest_bytes_ = read.bytes;
  }
  const auto previous = std::max(read.started_at, last_completed_.value_or(read.started_at));
  last_completed_ = now;
  if (read.started_at >= newest_start_) {
    if (!read.is_repeated) newest_start_ = read.started_at;
    last_in_order_ = now;
  }
  measure(read.bytes, seconds_of(now - previous));
}

// Compares the end of a read with two results of late_by_quiet(): an earlier time for
// steady_lateness, and a later time for usual_lateness. If a read ends after the later time, the
// read had stalled, and a second read is useful. If a read ends between the two times,
// steady_lateness would cause a needless second read. A second read was also needless if the first
// read was faster.
void read_pace::count_steadiness(const started_read& read, clock::time_point now) noexcept {
  if (seconds_per_byte_ == 0) return;
  const bool would_be_needless =
      now > late_by_quiet(read, steady_lateness) && now <= late_by_quiet(read, usual_lateness);
  if (read.was_repeated || would_be_needless) ++needless_;
  if (++counted_ < counted_max) return;
  counted_ /= 2;
  needless_ /= 2;
}

void read_pace::measure(std::uint64_t bytes, double seconds) noexcept {
  measured_bytes_ += bytes;
  measured_seconds_ += seconds;
  if (++measured_reads_ < reads_per_measurement) return;
  const double measured =
      measured_seconds_ / static_cast<double>(std::max<std::uint64_t>(1, measured_bytes_));
  const bool is_first = seconds_per_byte_ == 0;
  seconds_per_byte_ += (is_first ? 1 : new_weight) * (measured - seconds_per_byte_);
  measured_bytes_ = 0;
  measured_seconds_ = 0;
  measured_reads_ = 0;
}

// Returns the time at which the read is late, counted from `quiet_since`. Allows for the transfer
// of the bytes ahead and of the read itself, but at least for the largest read, because such a read
// may end first. Also allows for the part of the latency that remained at `quiet_since`.
read_pace::clock::time_point read_pace::late_by_quiet(const started_read& read,
                                                      const lateness& allowed) const noexcept {
  const auto quiet_since = std::max(read.started_at, last_in_order_);
  const double latency_left = latency() - seconds_of(quiet_since - read.started_at);
  const std::uint64_t bytes = std::max(largest_bytes_, bytes_ahead(read) + read.bytes);
  const double next = std::max(0.0, latency_left) + seconds_of_bytes(bytes);
  return quiet_since + late_after(std::chrono::duration<double>(next), allowed);
}

std::optional<read_pace::clock::time_point> read_pace::late_at(
    const started_read& read) const noexcept {
  if (seconds_per_byte_ == 0) return std::nullopt;
  const double expected = latency() + seconds_of_bytes(read.bytes_before + read.bytes);
  const auto by_bytes_before =
      read.started_at + late_after(std::chrono::duration<double>(expected));
  return std::min(by_bytes_before, late_by_quiet(read, allowed_quiet()));
}

std::optional<read_pace::clock::time_point> read_pace::check_at(
    const started_read& read, clock::time_point now) const noexcept {
  const auto late = late_at(read);
  if (!late) return std::nullopt;
  const std::chrono::duration<double> next(seconds_of_bytes(std::max(largest_bytes_, read.bytes)));
  return std::min(*late, now + late_after(next, allowed_quiet()));
}

}  // namespace ringload::inline v0::detail
