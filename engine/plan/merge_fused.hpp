// SPDX-License-Identifier: Apache-2.0
#pragma once

// Replaces the planned tensors that are parts of a fused tensor by the fused tensor.

#include "plan/plan.hpp"
#include "plan/plan_input.hpp"

namespace ringload::inline v0 {

// Replaces each tensor index of `new_plan` by its entry in plan_input::result_of. The place of a
// fused tensor is its arena block. A fused tensor in caller memory has the place of its first part.
void merge_fused(const plan_input& input, plan& new_plan);

}  // namespace ringload::inline v0
