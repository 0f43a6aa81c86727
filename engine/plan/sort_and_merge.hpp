// SPDX-License-Identifier: Apache-2.0
#pragma once

// The steps of make_plan() that run before each tensor gets its own place in an arena. plan.hpp
// explains the terms.

#include <span>
#include <vector>

#include "plan/placement_rules.hpp"
#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// Splits items in caller memory and in blocks of arenas, so that an unstaged read can fetch their
// whole 4 KiB blocks. Then sorts all items by file offset, and links duplicates. If an item is in a
// block of an arena, the item's destination_offset must already include the offset of the block.
void sort_and_merge(std::vector<stored_item>& items, const plan_input& input,
                    std::span<const placement_rules> rules, const plan_limits& limits);

}  // namespace ringload::inline v0
