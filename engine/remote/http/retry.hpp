// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides whether and when a failed HTTP request is sent again. Pure functions: the caller passes
// the time and a random number.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ringload::inline v0::remote_http {

struct retry_rules {
  std::uint32_t tries_max = 6;  // Maximum number of attempts without progress, including the first.
  std::chrono::milliseconds delay_first{250};
  std::chrono::milliseconds delay_max{8000};
  // Maximum delay that a server may request (Retry-After). The transfer ends if the server requests
  // a longer delay.
  std::chrono::milliseconds requested_max{60'000};
};

// The attempts of one transfer.
class retry_state {
 public:
  explicit retry_state(const retry_rules& rules) noexcept : rules_(rules) {}

  // Reports how many bytes an attempt received. If there are at least progress_bytes bytes,
  // failures() becomes 0.
  void progressed(std::uint64_t bytes) noexcept {
    if (bytes >= progress_bytes) failures_ = 0;
  }

  // Reports that an attempt failed. Returns the delay before the next attempt, or an empty optional
  // if no attempt is left. `chance` is a random number in [0, 1) that determines half of the delay.
  // `requested_delay` is the delay that the server requested, or an empty optional. The returned
  // delay is never shorter than `requested_delay`.
  std::optional<std::chrono::milliseconds> failed(
      double chance, std::optional<std::chrono::milliseconds> requested_delay = {}) noexcept;

  std::uint32_t failures() const noexcept { return failures_; }

  // An attempt that receives fewer bytes does not count as progress. Therefore the transfer also
  // fails if a server closes each connection after a few bytes.
  static constexpr std::uint64_t progress_bytes = 64 << 10;

 private:
  const retry_rules rules_;
  std::uint32_t failures_ = 0;  // Consecutive failures.
};

// Parses the value of Retry-After: a number of seconds, or a date as in RFC 9110 ("Sun, 06 Nov 1994
// 08:49:37 GMT"). `now` is in seconds since 1970. Returns 0 for a date in the past, and an empty
// optional if the value is invalid.
std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text,
                                                           std::int64_t now) noexcept;

}  // namespace ringload::inline v0::remote_http
