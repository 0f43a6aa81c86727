// SPDX-License-Identifier: Apache-2.0
#include "remote/cache/header_copy.hpp"

#include <algorithm>
#include <iterator>

namespace ringload::inline v0::remote_http {

bool header_copy::add(std::uint64_t offset, std::span<const std::byte> bytes) {
  const byte_range range = {offset, offset + bytes.size()};
  range_set present(range.end);
  add_ranges(present);
  for (const byte_range& part : present.missing_in(range)) {
    bytes_ += part.end - part.begin;
    if (bytes_ > bytes_max) return false;
    const auto added = bytes.subspan(part.begin - offset, part.end - part.begin);
    parts_.emplace(part.begin, std::vector<std::byte>(added.begin(), added.end()));
  }
  return true;
}

std::span<const std::byte> header_copy::find(byte_range range) const {
  const auto next = parts_.upper_bound(range.begin);
  if (next == parts_.begin()) return {};
  const auto& [begin, bytes] = *std::prev(next);
  const std::uint64_t end = std::min(range.end, begin + bytes.size());
  if (end <= range.begin) return {};
  return std::span(bytes).subspan(range.begin - begin, end - range.begin);
}

bool header_copy::has(byte_range range) const {
  while (range.begin < range.end) {
    const std::size_t copied_bytes = find(range).size();
    if (copied_bytes == 0) return false;
    range.begin += copied_bytes;
  }
  return true;
}

bool header_copy::equals(std::uint64_t offset, std::span<const std::byte> bytes) const {
  const std::uint64_t end = offset + bytes.size();
  auto next = parts_.upper_bound(offset);
  if (next != parts_.begin()) --next;
  for (; next != parts_.end() && next->first < end; ++next) {
    const auto& [begin, part] = *next;
    const std::uint64_t first = std::max(begin, offset);
    const std::uint64_t last = std::min(begin + part.size(), end);
    if (first >= last) continue;
    const auto present = std::span(part).subspan(first - begin, last - first);
    if (!std::ranges::equal(present, bytes.subspan(first - offset, last - first))) return false;
  }
  return true;
}

void header_copy::add_ranges(range_set& to) const {
  for (const auto& [begin, bytes] : parts_) to.add({begin, begin + bytes.size()});
}

}  // namespace ringload::inline v0::remote_http
