// SPDX-License-Identifier: Apache-2.0

#include "runtime/token_bucket.hpp"

#include <algorithm>

namespace ringload::inline v0 {

std::optional<token_bucket::clock::time_point> token_bucket::take(std::uint64_t bytes,
                                                                  clock::time_point now) noexcept {
  if (next_ && now < *next_) return next_;
  const clock::time_point begin = std::max(next_.value_or(now), now - lateness_max);
  const std::chrono::duration<double> cost(static_cast<double>(bytes) /
                                           static_cast<double>(bytes_per_second_max_));
  next_ = begin + std::chrono::duration_cast<clock::duration>(cost);
  return std::nullopt;
}

}  // namespace ringload::inline v0
