// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks that the boxes of a tensor cover each element of the tensor exactly once. Used by
// parse_dcp().

#include <cstdint>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

// Maximum number of pairs of boxes that are compared for one tensor.
inline constexpr std::uint64_t dcp_compared_max = 20'000'000;

// Removes boxes without elements, and boxes that are listed twice. Returns a fault if boxes
// overlap, extend past the shape, or do not cover all elements.
result<void> check_dcp_boxes(std::vector<piece>& boxes, std::span<const std::uint64_t> shape);

}  // namespace ringload::inline v0
