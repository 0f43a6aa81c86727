// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides whether a tensor can be used without a copy: the tensor is mapped from its file, or is
// read to the same offset within a 4 KiB block as in the file.

#include <cstdint>
#include <string>

#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// Returns the reason if the item's tensor cannot be mapped, or cannot be read in place with
// `stored_item::shift`. Otherwise returns an empty string. `alignment` is the alignment of the
// tensor's elements.
std::string obstacle_to_mapping(const stored_item& item, std::uint64_t alignment);

}  // namespace ringload::inline v0
