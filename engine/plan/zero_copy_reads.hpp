// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads whose bytes land at their destination without a copy.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/arena_layout.hpp"
#include "plan/plan.hpp"
#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// Straight tensors of one arena and one shift that are close enough for common reads: the items of
// [first, last) that are straight and have a place of their own.
struct straight_run {
  std::uint32_t first;
  std::uint32_t last;
  std::uint64_t end;    // End of their bytes in the file.
  bool is_cut = false;  // A nearby tensor of another arena ended the run.

  static bool takes(const stored_item& item) noexcept { return item.straight && item.own_place; }
};

// Returns the run that begins with items[first], which must be straight. The run ends before
// `last`.
straight_run run_from(std::uint32_t first, std::uint32_t last, std::span<const stored_item> items);

// Returns the items that are replicas of the run's items, in order.
std::vector<std::uint32_t> replicas_of(const straight_run& run, std::span<const stored_item> items);

// Adds the reads of a run. `to` is the place of the block in which the run's first byte would lie
// without its shift. Reads are cut where that place crosses a multiple of the slot size. Replicas
// must have their places; their bytes are copied from these reads.
void read_run(const straight_run& run, arena_layout::place to, std::span<const stored_item> items,
              std::uint64_t slot_bytes, plan& new_plan);

// Adds the reads for the whole blocks of an item, new_plan.parts[part], whose place is fixed.
void read_straight(std::uint32_t part, const stored_item& item, std::uint64_t slot_bytes,
                   plan& new_plan);

}  // namespace ringload::inline v0
