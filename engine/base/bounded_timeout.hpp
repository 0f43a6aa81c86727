// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace ringload::inline v0::detail {

// Returns `timeout`, but at most one year. The sum of the current time and a very long timeout,
// such as milliseconds::max(), would overflow the clock.
inline std::chrono::milliseconds bounded_timeout(std::chrono::milliseconds timeout) noexcept {
  constexpr std::chrono::hours timeout_max{24 * 365};
  return std::min<std::chrono::milliseconds>(timeout, timeout_max);
}

}  // namespace ringload::inline v0::detail
