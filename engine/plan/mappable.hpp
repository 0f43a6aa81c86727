// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides whether a tensor can be mapped from its file, or read directly into its arena.

#include <cstdint>
#include <string>

#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// Returns an error text if the item's tensor can be neither mapped nor read without staging.
// Returns an empty string if the tensor can be mapped or read without staging. `alignment` is the
// required alignment of the tensor after the shift by `item.shift`.
std::string obstacle_to_mapping(const stored_item& item, std::uint64_t alignment);

}  // namespace ringload::inline v0
