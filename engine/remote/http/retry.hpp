// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides when a failed request is retried. Pure: the caller provides time and chance.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ringload::inline v0::remote_http {

struct retry_rules {
  std::uint32_t tries_max = 6;  // Tries without progress, including the first.
  std::chrono::milliseconds delay_first{250};
  std::chrono::milliseconds delay_max{8000};
  std::chrono::milliseconds wanted_max{60'000};  // Longer Retry-After delays end the transfer.
};

// The retries of one transfer.
class retry_state {
 public:
  explicit retry_state(const retry_rules& rules) noexcept : rules_(rules) {}

  // A try received `bytes` bytes. At least progress_bytes bytes reset the count of failures.
  void progressed(std::uint64_t bytes) noexcept {
    if (bytes >= progress_bytes) failures_ = 0;
  }

  // A try failed. Returns the delay before the next try; empty: no try is left. `chance` is in
  // [0, 1) and determines half of the delay. `wanted` is the delay that the server requested.
  std::optional<std::chrono::milliseconds> failed(
      double chance, std::optional<std::chrono::milliseconds> wanted = {}) noexcept;

  std::uint32_t failures() const noexcept { return failures_; }

  // Retries end if a server closes the connection after every byte.
  static constexpr std::uint64_t progress_bytes = 64 << 10;

 private:
  const retry_rules rules_;
  std::uint32_t failures_ = 0;  // Consecutive failures.
};

// Parses the value of Retry-After: seconds, or a date (RFC 9110, "Sun, 06 Nov 1994 08:49:37 GMT").
// `now` is in seconds since 1970. Empty: the value is neither. Past dates return 0.
std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text,
                                                           std::int64_t now) noexcept;

}  // namespace ringload::inline v0::remote_http
