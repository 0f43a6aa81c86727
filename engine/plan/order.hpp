// SPDX-License-Identifier: Apache-2.0
#pragma once

// What of a plan follows from its reads, parts and streams.

#include <cstdint>

#include "plan/plan.hpp"

namespace ringload::inline v0 {

// Joins reads to parts and outputs to streams, sums up, and finds the order of the reads.
void complete(plan& made, std::uint32_t streams_at_once);

}  // namespace ringload::inline v0
