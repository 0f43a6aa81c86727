// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides whether a tensor can be mapped from its file, or read directly into its arena.

#include <cstdint>
#include <string>

#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// Returns the reason if the item's tensor can be neither mapped nor read straight. Otherwise
// returns an empty string. A straight read moves the tensor by `stored_item::shift`. `alignment` is
// the alignment of the tensor's elements.
std::string obstacle_to_mapping(const stored_item& item, std::uint64_t alignment);

}  // namespace ringload::inline v0
