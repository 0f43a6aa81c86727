// SPDX-License-Identifier: Apache-2.0

#include "remote/cache/range_set.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace ringload::inline v0::remote_http {

namespace {

// Removes a number and the character `after` from the front of the text, and returns the number.
// Returns an empty optional if the text does not begin with a number and this character.
std::optional<std::uint64_t> take_number(std::string_view& text, char after) noexcept {
  std::uint64_t out = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc() || end == text.data() + text.size() || *end != after) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return out;
}

}  // namespace

void range_set::add(byte_range range) {
  if (range.begin >= range.end) return;
  auto next = ranges_.upper_bound(range.begin);
  if (next != ranges_.begin() && std::prev(next)->second >= range.begin) --next;
  // Merges the new range with all ranges that touch the new range. The merged range uses a node of
  // these ranges, so nothing is allocated after a range was removed.
  decltype(ranges_)::node_type node;
  while (next != ranges_.end() && next->first <= range.end) {
    range.begin = std::min(range.begin, next->first);
    range.end = std::max(range.end, next->second);
    bytes_ -= next->second - next->first;
    node = ranges_.extract(next++);
  }
  if (node.empty()) {
    ranges_.emplace_hint(next, range.begin, range.end);
  } else {
    node.key() = range.begin;
    node.mapped() = range.end;
    ranges_.insert(next, std::move(node));
  }
  bytes_ += range.end - range.begin;
}

bool range_set::has(byte_range range) const noexcept {
  if (range.begin >= range.end) return true;
  const auto next = ranges_.upper_bound(range.begin);
  return next != ranges_.begin() && std::prev(next)->second >= range.end;
}

std::uint64_t range_set::prefix_bytes() const noexcept {
  return ranges_.empty() || ranges_.begin()->first > 0 ? 0 : ranges_.begin()->second;
}

std::vector<byte_range> range_set::missing_in(byte_range part) const {
  std::vector<byte_range> out;
  std::uint64_t position = part.begin;
  auto next = ranges_.upper_bound(position);
  if (next != ranges_.begin()) position = std::max(position, std::prev(next)->second);
  for (; next != ranges_.end() && next->first < part.end; ++next) {
    out.push_back({position, next->first});
    position = next->second;
  }
  if (position < part.end) out.push_back({position, part.end});
  return out;
}

std::string range_set::to_text() const {
  std::string out = std::to_string(file_bytes_) + "\n";
  for (const auto& [begin, end] : ranges_) {
    out += std::to_string(begin) + " " + std::to_string(end) + "\n";
  }
  return out;
}

std::optional<range_set> range_set::from_text(std::string_view text, std::uint64_t file_bytes) {
  if (take_number(text, '\n') != file_bytes) return std::nullopt;
  range_set out(file_bytes);
  while (!text.empty()) {
    const auto begin = take_number(text, ' ');
    const auto end = begin ? take_number(text, '\n') : std::nullopt;
    if (!end || *begin >= *end || *end > file_bytes) return std::nullopt;
    if (out.count() == ranges_max) return std::nullopt;
    out.add({*begin, *end});
  }
  return out;
}

}  // namespace ringload::inline v0::remote_http
