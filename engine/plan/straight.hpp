// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads that land where their bytes go.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/arena_layout.hpp"
#include "plan/plan.hpp"
#include "plan/resolve.hpp"

namespace ringload::inline v0 {

// Straight tensors of one arena and one shift that are near enough to be read in one go: those of
// the items [first, last) that are straight and have a place of their own.
struct straight_run {
  std::uint32_t first;
  std::uint32_t last;
  std::uint64_t end;    // Of their bytes in the file.
  bool is_cut = false;  // By a tensor as near, of another arena.

  static bool takes(const stored_item& item) noexcept { return item.straight && item.own_place; }
};

// The run that begins with items[first], which is straight; it ends before `last`.
straight_run run_from(std::uint32_t first, std::uint32_t last, std::span<const stored_item> items);

// The items that are replicas of those of a run, in their order.
std::vector<std::uint32_t> replicas_of(const straight_run& one, std::span<const stored_item> items);

// Makes the reads of a run, which has its place: `to` is that of the block in which its first byte
// would lie without its shift. They are cut where that crosses a multiple of the slot size. What
// has replicas, which have their places as well, is copied there.
void read_run(const straight_run& one, arena_layout::place to, std::span<const stored_item> items,
              std::uint64_t slot_bytes, plan& made);

// Makes the reads of whole blocks of an item, made.parts[part], that has its place already.
void read_straight(std::uint32_t part, const stored_item& item, std::uint64_t slot_bytes,
                   plan& made);

}  // namespace ringload::inline v0
