// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides whether a tensor can be used where its file stores it.

#include <cstdint>
#include <string>

#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// Returns a message if the item's tensor cannot be mapped, or read in place at its shift; returns
// an empty string if it can. `alignment` is what its elements need.
std::string obstacle_to_view(const stored_item& item, std::uint64_t alignment);

}  // namespace ringload::inline v0
