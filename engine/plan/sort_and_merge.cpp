// SPDX-License-Identifier: Apache-2.0

#include "plan/sort_and_merge.hpp"

#include <algorithm>

#include "base/checked.hpp"

namespace ringload::inline v0 {

namespace {

// Splits items in caller memory and in arena blocks, if a direct read may write to this memory. An
// unstaged read fetches the whole 4 KiB blocks of the item. A read must never write an unwanted
// byte, so the bytes before and after the whole blocks are staged.
void split_unstaged(std::vector<stored_item>& items, const plan_input& input,
                    std::span<const placement_rules> rules, const plan_limits& limits) {
  const std::size_t count = items.size();
  for (std::size_t i = 0; i < count; ++i) {
    const stored_item& item = items[i];
    if (item.has_own_place || item.stream != no_index || item.map != no_index || item.cast.needed())
      continue;
    std::uint64_t address = item.destination_offset;
    // A replicated tensor in an arena block is staged, because its bytes are read once for all
    // arenas.
    bool possible =
        rules_of(item.destination, input, rules).unstaged && !input.tensors[item.tensor].replicated;
    if (input.is_caller_memory(item.destination)) {
      const caller_memory& memory = input.destinations[item.destination - 1];
      address += memory.address;
      possible = memory.unstaged;
    }
    const std::uint64_t begin = round_up(item.begin, std::uint64_t{block_bytes});
    const std::uint64_t end = round_down(item.end, std::uint64_t{block_bytes});
    if (!possible || begin >= end || end - begin < unstaged_bytes_min) continue;
    if ((address + (begin - item.begin)) % limits.direct_alignment != 0) continue;
    stored_item body = item;
    body.destination_offset += begin - item.begin;
    body.begin = begin;
    body.end = end;
    body.unstaged = true;
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

// Tensors with the same elements of the same stored bytes share their memory.
void find_aliases(std::vector<stored_item>& items, const plan_input& input) {
  constexpr std::uint32_t candidates_max = 8;
  const auto can_share = [&](const stored_item& a, const stored_item& b) {
    return a.has_own_place && a.is_only_item && b.has_own_place && b.is_only_item &&
           a.stream == b.stream && a.stream_offset == b.stream_offset &&
           a.stream_bytes == b.stream_bytes && a.map == b.map && a.cast == b.cast &&
           a.destination == b.destination &&
           input.tensors[a.tensor].alignment == input.tensors[b.tensor].alignment;
  };
  for (std::uint32_t i = 1; i < items.size(); ++i) {
    for (std::uint32_t k = i; k > i - std::min(i, candidates_max); --k) {
      const stored_item& earlier = items[k - 1];
      if (earlier.file != items[i].file || earlier.begin != items[i].begin ||
          earlier.end != items[i].end) {
        break;
      }
      if (earlier.same_as != no_index || !can_share(earlier, items[i])) continue;
      items[i].same_as = k - 1;
      break;
    }
  }
}

// Links items that copy the same stored bytes unchanged into several arenas. Only the first of
// these items can be read without staging.
void find_replicas(std::vector<stored_item>& items, const plan_input& input) {
  const auto may_replicate = [&](const stored_item& item) {
    return input.tensors[item.tensor].replicated && item.has_own_place && item.is_only_item &&
           item.stream == no_index && item.map == no_index && !item.cast.needed() &&
           item.same_as == no_index;
  };
  std::uint32_t first = no_index;
  for (std::uint32_t i = 0; i < items.size(); ++i) {
    stored_item& item = items[i];
    if (!may_replicate(item)) continue;
    const bool same_bytes = first != no_index && items[first].file == item.file &&
                            items[first].begin == item.begin && items[first].end == item.end;
    if (same_bytes) {
      item.replica_of = first;
    } else {
      first = i;
    }
  }
}

}  // namespace

void sort_and_merge(std::vector<stored_item>& items, const plan_input& input,
                    std::span<const placement_rules> rules, const plan_limits& limits) {
  split_unstaged(items, input, rules, limits);
  sort_by_place(items);
  find_aliases(items, input);
  if (input.mapping == mapping_request::none) find_replicas(items, input);
}

}  // namespace ringload::inline v0
