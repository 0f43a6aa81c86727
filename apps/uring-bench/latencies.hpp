// SPDX-License-Identifier: Apache-2.0
#pragma once

// Counts times in nanoseconds in buckets. The width of a bucket is at most 1/128 of the time, so
// the error of a percentile is less than 0.8 %.

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringload::bench {

inline std::uint64_t nanoseconds_between(std::chrono::steady_clock::time_point from,
                                         std::chrono::steady_clock::time_point to) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(to - from).count());
}

class latencies {
 public:
  void add(std::uint64_t nanoseconds) {
    if (counts_.empty()) counts_.resize(bucket_of(~std::uint64_t{0}) + 1);
    ++counts_[bucket_of(nanoseconds)];
    ++total_;
    if (nanoseconds > largest_) largest_ = nanoseconds;
  }

  void add(const latencies& others);

  std::uint64_t count() const noexcept { return total_; }
  std::uint64_t largest() const noexcept { return largest_; }

  /// Returns the smallest time such that at least `share` (0 to 1) of all times are not longer.
  /// Returns 0 if no time was counted.
  std::uint64_t percentile(double share) const;

 private:
  // Each time below 256 has its own bucket. Above, each power of two has 128 buckets.
  static constexpr unsigned exact_bits = 8;

  static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    if (value < (1U << exact_bits)) return static_cast<std::size_t>(value);
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - exact_bits;
    return (std::size_t{shift} << (exact_bits - 1)) + static_cast<std::size_t>(value >> shift);
  }
  static std::uint64_t top_of(std::size_t bucket) noexcept;

  std::vector<std::uint64_t> counts_;
  std::uint64_t total_ = 0;
  std::uint64_t largest_ = 0;
};

}  // namespace ringload::bench
