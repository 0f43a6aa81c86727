// SPDX-License-Identifier: Apache-2.0
#include "request/destinations.hpp"

#include <algorithm>

namespace ringload::inline v0::detail {

void destinations::add(std::byte* memory, backend* by, bool is_arena) {
  memory_.push_back(memory);
  by_.push_back(by);
  is_arena_.push_back(is_arena);
  if (only_ == nullptr) only_ = by;
  several_ = several_ || (by != nullptr && by != only_);
}

// Where one of the devices before brings the same bytes, if `one` of so many had rather be copied
// from there; else null.
const std::byte* destinations::brought(std::span<const share> before, const copy_op& one,
                                       std::size_t copies) const {
  if (one.cast.needed() || one.map != no_index) return nullptr;
  for (const share& other : before) {
    if (!by_[one.destination]->prefers(*other.by, one, copies)) continue;
    const auto same = std::ranges::find_if(other.copies, [&](const copy_op& c) {
      return c.slot_offset == one.slot_offset && c.bytes == one.bytes && !c.cast.needed() &&
             c.map == no_index && is_arena_[c.destination];
    });
    if (same != other.copies.end()) return memory_[same->destination] + same->destination_offset;
  }
  return nullptr;
}

std::vector<destinations::share> destinations::shares(std::span<const copy_op> copies,
                                                      std::vector<copy_op>& order) const {
  std::vector<share> all;
  std::vector<share> between;
  order.assign(copies.begin(), copies.end());
  for (std::span<copy_op> left = order; !left.empty();) {
    backend* const by = by_[left.front().destination];
    const auto others =
        std::ranges::partition(left, [&](const copy_op& c) { return by_[c.destination] == by; });
    std::span<copy_op> mine = left.first(left.size() - others.size());
    left = left.last(others.size());
    for (std::size_t i = 0, count = mine.size(); i < mine.size();) {
      const std::byte* const there = brought(all, mine[i], count);
      if (there == nullptr) {
        ++i;
        continue;
      }
      std::swap(mine[i], mine.back());
      mine.back().slot_offset = 0;
      between.push_back({by, mine.last(1), there});
      mine = mine.first(mine.size() - 1);
    }
    if (!mine.empty()) all.push_back({by, mine});
  }
  all.insert(all.end(), between.begin(), between.end());
  return all;
}

}  // namespace ringload::inline v0::detail
