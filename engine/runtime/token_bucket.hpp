// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides when reads may start, so that a loader reads at most `bytes_per_second_max` bytes per
// second. Pure arithmetic: the caller passes the time.

#include <chrono>
#include <cstdint>
#include <optional>

namespace ringload::inline v0 {

class token_bucket {
 public:
  using clock = std::chrono::steady_clock;

  // If a read starts late by up to this time, the next reads start earlier, so that the delay does
  // not lower the rate.
  static constexpr std::chrono::milliseconds lateness_max{50};

  explicit token_bucket(std::uint64_t bytes_per_second_max) noexcept
      : bytes_per_second_max_(bytes_per_second_max) {}

  // Returns an empty optional if the read may start now. Its bytes then delay the next read.
  // Otherwise returns the time at which the caller must ask again.
  std::optional<clock::time_point> take(std::uint64_t bytes, clock::time_point now) noexcept;

 private:
  const std::uint64_t bytes_per_second_max_;
  std::optional<clock::time_point> next_;  // Start of the next read. Empty before the first.
};

}  // namespace ringload::inline v0
