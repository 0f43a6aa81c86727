// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether a tensor can be used where its file has it.

#include <cstdint>
#include <string>

#include "plan/resolve.hpp"

namespace ringload::inline v0 {

// Why the tensor of that item cannot be a view, or land as a whole where its shift says, for
// people; empty: it can. `alignment` is what its elements need.
std::string obstacle_to_view(const stored_item& item, std::uint64_t alignment);

}  // namespace ringload::inline v0
