// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts a `plan_input` to a `plan`: decides every read and every copy of a load. Pure function.

#include <cstdint>
#include <span>

#include "base/fault.hpp"
#include "plan/placement_rules.hpp"
#include "plan/plan.hpp"
#include "plan/plan_input.hpp"

namespace ringload::inline v0 {

// Returns a fault with one of these codes:
// - errc::memory_exceeded, if the arenas would be larger than allowed, or a slice or a
//   compressed stream needs too many reads
// - errc::fractional_bytes, if a box does not begin and end on whole bytes
// - errc::extent_outside_file, if a piece ends past the end of its stream
// - errc::size_overflow, if a size exceeds 64 bits
// - errc::not_mappable, if a tensor that must be mapped cannot be mapped
//
// If one tensor caused the fault, sets `failed_tensor` to the index of the tensor. `rules` has one
// element for each arena of the input, or a single element for all arenas.
result<plan> make_plan(const plan_input& input, std::span<const placement_rules> rules,
                       const plan_limits& limits, std::uint32_t* failed_tensor = nullptr);
inline result<plan> make_plan(const plan_input& input, const placement_rules& rules,
                              const plan_limits& limits, std::uint32_t* failed_tensor = nullptr) {
  return make_plan(input, std::span(&rules, 1), limits, failed_tensor);
}

}  // namespace ringload::inline v0
