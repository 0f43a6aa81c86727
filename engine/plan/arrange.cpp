// SPDX-License-Identifier: Apache-2.0
#include "plan/arrange.hpp"

#include <algorithm>

#include "core/checked.hpp"

namespace ringload::inline v0 {

namespace {

// Of what goes to memory that has its place already, the whole blocks are read straight into it
// where a direct read may land there. A read never writes a byte that is not wanted: what is before
// the first whole block and after the last is staged.
void split_straight(std::vector<stored_item>& items, const plan_input& what,
                    std::span<const layout_rules> rules, const plan_limits& within) {
  const std::size_t count = items.size();
  for (std::size_t i = 0; i < count; ++i) {
    const stored_item& item = items[i];
    if (item.own_place || item.stream != no_index || item.map != no_index || item.as.needed())
      continue;
    std::uint64_t address = item.destination_offset;
    // Of a block that is replicated the bytes are read once, for all.
    bool possible =
        rules_of(item.destination, what, rules).straight && !what.tensors[item.tensor].replicated;
    if (what.is_callers(item.destination)) {
      const caller_memory& memory = what.destinations[item.destination - 1];
      address += memory.address;
      possible = memory.straight;
    }
    const std::uint64_t begin = round_up(item.begin, std::uint64_t{block_bytes});
    const std::uint64_t end = round_down(item.end, std::uint64_t{block_bytes});
    if (!possible || begin >= end || end - begin < straight_bytes_min) continue;
    if ((address + (begin - item.begin)) % within.direct_alignment != 0) continue;
    stored_item body = item;
    body.destination_offset += begin - item.begin;
    body.begin = begin;
    body.end = end;
    body.straight = true;
    if (begin == item.begin && end == item.end) {
      items[i] = body;
      continue;
    }
    items[i].hole_begin = begin;
    items[i].hole_end = end;
    items.push_back(body);
  }
}

void sort_by_place(std::vector<stored_item>& items) {
  const auto before = [](const stored_item& a, const stored_item& b) {
    if (a.file != b.file) return a.file < b.file;
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.end != b.end) return a.end < b.end;
    return a.tensor < b.tensor;
  };
  if (!std::is_sorted(items.begin(), items.end(), before)) {
    std::sort(items.begin(), items.end(), before);
  }
}

// Tensors that are the same elements of the same stored bytes share their memory.
void find_aliases(std::vector<stored_item>& items, const plan_input& what) {
  constexpr std::uint32_t looked_at = 8;
  const auto same = [&](const stored_item& a, const stored_item& b) {
    return a.own_place && a.only && b.own_place && b.only && a.stream == b.stream &&
           a.stream_offset == b.stream_offset && a.stream_bytes == b.stream_bytes &&
           a.map == b.map && a.as == b.as && a.destination == b.destination &&
           what.tensors[a.tensor].alignment == what.tensors[b.tensor].alignment;
  };
  for (std::uint32_t i = 1; i < items.size(); ++i) {
    for (std::uint32_t k = i; k > i - std::min(i, looked_at); --k) {
      const stored_item& one = items[k - 1];
      if (one.file != items[i].file || one.begin != items[i].begin || one.end != items[i].end) {
        break;
      }
      if (one.same_as != no_index || !same(one, items[i])) continue;
      items[i].same_as = k - 1;
      break;
    }
  }
}

// Stored bytes that land as they are in several arenas: the first of them can be straight.
void find_replicas(std::vector<stored_item>& items, const plan_input& what) {
  const auto can_be = [&](const stored_item& one) {
    return what.tensors[one.tensor].replicated && one.own_place && one.only &&
           one.stream == no_index && one.map == no_index && !one.as.needed() &&
           one.same_as == no_index;
  };
  std::uint32_t first = no_index;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    stored_item& one = items[i];
    if (!can_be(one)) continue;
    const bool same = first != no_index && items[first].file == one.file &&
                      items[first].begin == one.begin && items[first].end == one.end;
    if (same) {
      one.replica_of = first;
    } else {
      first = i;
    }
  }
}

}  // namespace

void arrange(std::vector<stored_item>& items, const plan_input& what,
             std::span<const layout_rules> rules, const plan_limits& within) {
  split_straight(items, what, rules, within);
  sort_by_place(items);
  find_aliases(items, what);
  if (what.views == view_wish::none) find_replicas(items, what);
}

}  // namespace ringload::inline v0
