// SPDX-License-Identifier: Apache-2.0
#include "remote/cache/repeated_bytes.hpp"

#include <algorithm>

namespace ringload::inline v0::remote_http {

void repeated_bytes::begin_pass() {
  tail_.clear();
  tail_.reserve(2 * bytes_max);
  later_.clear();
}

void repeated_bytes::pass(std::uint64_t front, std::span<const std::byte> bytes) {
  const std::uint64_t begin = front - bytes.size();
  std::erase_if(later_, [&](const auto& repeated) {
    const auto& [offset, kept] = repeated;
    const std::uint64_t first = std::max(begin, offset);
    const std::uint64_t last = std::min(front, offset + kept.size());
    if (first < last &&
        !std::ranges::equal(bytes.subspan(first - begin, last - first),
                            std::span(kept).subspan(first - offset, last - first))) {
      is_contradictory = true;
    }
    return offset + kept.size() <= front;
  });
  const auto added = bytes.last(std::min<std::size_t>(bytes.size(), bytes_max));
  const std::size_t kept = std::min<std::size_t>(tail_.size(), bytes_max - added.size());
  tail_.erase(tail_.begin(), tail_.end() - static_cast<std::ptrdiff_t>(kept));
  tail_.insert(tail_.end(), added.begin(), added.end());
}

bool repeated_bytes::compare(std::uint64_t front, std::uint64_t offset,
                             std::span<const std::byte> bytes) {
  if (offset < front) {
    const std::uint64_t tail_begin = front - tail_.size();
    if (offset < tail_begin) return false;
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), front - offset);
    const auto kept = std::span(tail_).subspan(offset - tail_begin, count);
    if (!std::ranges::equal(bytes.first(count), kept)) is_contradictory = true;
    offset += count;
    bytes = bytes.subspan(count);
  }
  if (!bytes.empty()) later_.emplace_back(offset, std::vector(bytes.begin(), bytes.end()));
  return true;
}

}  // namespace ringload::inline v0::remote_http
