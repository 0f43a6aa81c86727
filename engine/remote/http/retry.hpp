// SPDX-License-Identifier: Apache-2.0
#pragma once

// When a request that failed is made again. Pure: time and chance are given.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ringload::inline v0::remote_http {

struct retry_rules {
  std::uint32_t tries_max = 6;  // Without progress, the first included.
  std::chrono::milliseconds delay_first{250};
  std::chrono::milliseconds delay_max{8000};
  std::chrono::milliseconds wanted_max{60'000};  // Longer than this no Retry-After is obeyed.
};

// Of one transfer.
class retry_state {
 public:
  explicit retry_state(const retry_rules& rules) noexcept : rules_(rules) {}

  // A try brought so many bytes before it failed: those that come this far begin anew to count.
  void progressed(std::uint64_t bytes) noexcept {
    if (bytes >= progress_bytes) failures_ = 0;
  }

  // A try failed: how long to wait before the next; empty: there is none. `chance` is from [0, 1);
  // half of the delay depends on it. `wanted` is what the server asked for.
  std::optional<std::chrono::milliseconds> failed(
      double chance, std::optional<std::chrono::milliseconds> wanted = {}) noexcept;

  std::uint32_t failures() const noexcept { return failures_; }

  // A server that cuts after every byte must not be asked for ever.
  static constexpr std::uint64_t progress_bytes = 64 << 10;

 private:
  const retry_rules rules_;
  std::uint32_t failures_ = 0;  // In a row.
};

// The value of Retry-After: seconds, or a date (RFC 9110, "Sun, 06 Nov 1994 08:49:37 GMT"), at
// `now`, in seconds since 1970. Empty: neither. A date that has passed is 0.
std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view text,
                                                           std::int64_t now) noexcept;

}  // namespace ringload::inline v0::remote_http
