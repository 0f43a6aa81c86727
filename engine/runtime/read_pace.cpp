// SPDX-License-Identifier: Apache-2.0

#include "runtime/read_pace.hpp"

#include "io/late_read.hpp"

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
  const double seconds = seconds_of(now - read.started_at);
  const bool is_larger = read.bytes > 2 * largest_bytes_;  // Earlier reads were too small.
  largest_bytes_ = std::max(largest_bytes_, read.bytes);
  const bool is_comparable = 2 * read.bytes >= largest_bytes_;
  if (is_larger || (is_comparable && seconds < shortest_)) {
    shortest_ = seconds;
    shortest_bytes_ = read.bytes;
  }
  const auto previous = std::max(read.started_at, last_completed_.value_or(read.started_at));
  last_completed_ = now;
  if (read.started_at >= newest_start_) {
    newest_start_ = read.started_at;
    last_in_order_ = now;
  }
  measure(read.bytes, seconds_of(now - previous));
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

std::optional<read_pace::clock::time_point> read_pace::late_at(
    const started_read& read) const noexcept {
  using duration = std::chrono::duration<double>;
  if (seconds_per_byte_ == 0) return std::nullopt;
  const auto seconds_of_bytes = [this](std::uint64_t bytes) {
    return static_cast<double>(bytes) * seconds_per_byte_;
  };
  const auto by_bytes_before =
      read.started_at +
      late_after(duration(latency() + seconds_of_bytes(read.bytes_before + read.bytes)));

  // Expects the next completion after the time to transfer one read. Another read may complete
  // next, so the size of the largest read is used. If the latency of this read was not over at the
  // last completion, the rest of the latency is added.
  const auto quiet_since = std::max(read.started_at, last_in_order_);
  const double latency_left = latency() - seconds_of(quiet_since - read.started_at);
  const double next = std::max(0.0, latency_left) + seconds_of_bytes(largest_bytes_);
  const auto by_quiet = quiet_since + late_after(duration(next));
  return std::min(by_bytes_before, by_quiet);
}

}  // namespace ringload::inline v0::detail
