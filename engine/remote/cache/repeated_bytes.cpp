// SPDX-License-Identifier: Apache-2.0
#include "remote/cache/repeated_bytes.hpp"

#include <algorithm>

namespace ringload::inline v0::remote_http {

void repeated_bytes::begin_pass() {
  tail_.clear();
  tail_.reserve(2 * bytes_max);
  pending_copies_.clear();
}

void repeated_bytes::add(std::uint64_t pass_end, std::span<const std::byte> bytes) {
  const std::uint64_t begin = pass_end - bytes.size();
  std::erase_if(pending_copies_, [&](const auto& repeated) {
    const auto& [offset, kept] = repeated;
    const std::uint64_t first = std::max(begin, offset);
    const std::uint64_t last = std::min(pass_end, offset + kept.size());
    if (first < last &&
        !std::ranges::equal(bytes.subspan(first - begin, last - first),
                            std::span(kept).subspan(first - offset, last - first))) {
      is_contradictory = true;
    }
    return offset + kept.size() <= pass_end;
  });
  const auto added = bytes.last(std::min<std::size_t>(bytes.size(), bytes_max));
  const std::size_t kept = std::min<std::size_t>(tail_.size(), bytes_max - added.size());
  tail_.erase(tail_.begin(), tail_.end() - static_cast<std::ptrdiff_t>(kept));
  tail_.insert(tail_.end(), added.begin(), added.end());
}

bool repeated_bytes::compare(std::uint64_t pass_end, std::uint64_t offset,
                             std::span<const std::byte> bytes) {
  if (offset < pass_end) {
    const std::uint64_t tail_begin = pass_end - tail_.size();
    if (offset < tail_begin) return false;
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), pass_end - offset);
    const auto kept = std::span(tail_).subspan(offset - tail_begin, count);
    if (!std::ranges::equal(bytes.first(count), kept)) is_contradictory = true;
    offset += count;
    bytes = bytes.subspan(count);
  }
  if (!bytes.empty()) pending_copies_.emplace_back(offset, std::vector(bytes.begin(), bytes.end()));
  return true;
}

}  // namespace ringload::inline v0::remote_http
