// SPDX-License-Identifier: Apache-2.0
#pragma once

// The steps of make_plan() that need only the stored items. They run before the arenas have a
// layout. plan.hpp explains the terms.

#include <span>
#include <vector>

#include "plan/placement_rules.hpp"
#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// Splits the items whose bytes can be read straight into memory with a fixed place. Then sorts all
// items by file offset, and links duplicates. The caller must first add the offsets of the arena
// blocks to the items.
void sort_and_merge(std::vector<stored_item>& items, const plan_input& input,
                    std::span<const placement_rules> rules, const plan_limits& limits);

}  // namespace ringload::inline v0
