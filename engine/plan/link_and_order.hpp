// SPDX-License-Identifier: Apache-2.0
#pragma once

// The last step of make_plan(): computes the links between reads, parts and streams of a plan, and
// the order of its reads. plan.hpp explains the terms.

#include <cstdint>

#include "plan/plan.hpp"

namespace ringload::inline v0 {

void link_and_order(plan& new_plan, std::uint32_t streams_at_once);

}  // namespace ringload::inline v0
