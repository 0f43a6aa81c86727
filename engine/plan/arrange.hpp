// SPDX-License-Identifier: Apache-2.0
#pragma once

// What can be said of stored items before the arena is laid out.

#include <vector>

#include "plan/make_plan.hpp"
#include "plan/resolve.hpp"

namespace ringload::inline v0 {

// Splits those whose bytes can be read straight into memory that has its place already, puts them
// in the order of the files, and finds those that are the same. Offsets in blocks are fixed before.
void arrange(std::vector<stored_item>& items, const plan_input& what,
             std::span<const layout_rules> rules, const plan_limits& within);

}  // namespace ringload::inline v0
