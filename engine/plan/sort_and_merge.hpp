// SPDX-License-Identifier: Apache-2.0
#pragma once

// Steps that need only the stored items, before the arenas are laid out.

#include <vector>

#include "plan/make_plan.hpp"
#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// Splits the items whose bytes can be read straight into memory with a fixed place, sorts all items
// by file offset, and links duplicates. The caller must have added the offsets of the arena blocks
// before.
void sort_and_merge(std::vector<stored_item>& items, const plan_input& input,
                    std::span<const layout_rules> rules, const plan_limits& within);

}  // namespace ringload::inline v0
