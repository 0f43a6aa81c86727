// SPDX-License-Identifier: Apache-2.0
#include "latencies.hpp"

#include <algorithm>
#include <cmath>

namespace ringload::bench {

void latencies::add(const latencies& others) {
  if (counts_.size() < others.counts_.size()) counts_.resize(others.counts_.size());
  for (std::size_t i = 0; i < others.counts_.size(); ++i) counts_[i] += others.counts_[i];
  total_ += others.total_;
  largest_ = std::max(largest_, others.largest_);
}

std::uint64_t latencies::top_of(std::size_t bucket) noexcept {
  constexpr std::size_t exact = std::size_t{1} << exact_bits;
  if (bucket < exact) return bucket;
  // The inverse of bucket_of: value >> shift is in [128, 256).
  const std::size_t shift = (bucket >> (exact_bits - 1)) - 1;
  const std::uint64_t top_bits = bucket - (shift << (exact_bits - 1));
  return ((top_bits + 1) << shift) - 1;
}

std::uint64_t latencies::percentile(double share) const {
  if (total_ == 0) return 0;
  const double exact_rank = std::ceil(share * static_cast<double>(total_));
  const auto rank = std::clamp(static_cast<std::uint64_t>(exact_rank), std::uint64_t{1}, total_);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::min(top_of(i), largest_);
  }
  return largest_;
}

}  // namespace ringload::bench
