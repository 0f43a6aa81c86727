// SPDX-License-Identifier: Apache-2.0
#pragma once

// Derives the links and the order of a plan from its reads, parts and streams.

#include <cstdint>

#include "plan/plan.hpp"

namespace ringload::inline v0 {

// Links reads to parts and outputs to streams, sums up the bytes, and orders the reads.
void complete(plan& new_plan, std::uint32_t streams_at_once);

}  // namespace ringload::inline v0
