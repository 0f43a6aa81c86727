// SPDX-License-Identifier: Apache-2.0
#pragma once

// From what is wanted to the plan that brings it: arithmetic alone.

#include <cstdint>
#include <span>

#include "core/fault.hpp"
#include "plan/plan.hpp"
#include "plan/wanted.hpp"

namespace ringload::inline v0 {

// How a device wants its tensors.
struct layout_rules {
  std::uint64_t tensor_alignment =
      1;                  // A power of two, at most block_bytes; dtypes may ask for more.
  bool straight = false;  // Reads can land in the arena.
  // Straight reads are cut where the arena crosses a multiple of the slot size. A run of tensors at
  // least this long begins on such a multiple, so that its reads fill whole huge pages. Shorter
  // runs are packed: at most a sixteenth of what this costs is wasted.
  std::uint64_t aligned_run_bytes = std::uint64_t{64} << 20;
};

// Those of the arena that a destination is; of the caller's memory, of no matter which.
inline const layout_rules& rules_of(std::uint32_t destination, const plan_input& what,
                                    std::span<const layout_rules> all) noexcept {
  const bool one = all.size() == 1 || what.is_callers(destination);
  return one ? all.front() : all[what.arena_of(destination)];
}

struct plan_limits {
  std::uint64_t slot_bytes;  // A power of two, at least two blocks.
  std::uint64_t arena_bytes_max = ~std::uint64_t{0};
  // What an address must be a multiple of for a straight read, where that is not a block of the
  // arena: a power of two, at most block_bytes. 1 where a worker copies what cannot land as it is.
  std::uint64_t direct_alignment = 512;
  // Chains that take turns, so that no stream holds all slots.
  std::uint32_t streams_at_once = 4;
};

// Reads go on through bytes that nobody wants if they are fewer than this. A read less is worth
// more than 64 KiB: 10 us of a drive that gives 6 GB/s, which is less than a read takes.
inline constexpr std::uint64_t read_through_bytes = std::uint64_t{64} << 10;

// A tensor of the caller's memory is read straight where at least so much of it is whole blocks;
// the rest of it, and smaller ones, share staged reads with their neighbours.
inline constexpr std::uint64_t straight_bytes_min = read_through_bytes;

// Rows of a slice that are too far apart to be read through: each is a read.
inline constexpr std::uint64_t rows_max = std::uint64_t{1} << 22;

// Fails with errc::memory_exceeded when the arena would be larger than allowed, or a slice is of
// more rows than rows_max; errc::fractional_bytes, for a box of less than whole bytes;
// errc::extent_outside_file, where a piece leaves its stream; errc::size_overflow;
// errc::not_mappable, where a tensor cannot be a view and must be. Then `culprit`, where it is one
// tensor's fault, becomes its index.
//
// `rules` are by arena of the input, or one for all.
result<plan> make_plan(const plan_input& what, std::span<const layout_rules> rules,
                       const plan_limits& within, std::uint32_t* culprit = nullptr);
inline result<plan> make_plan(const plan_input& what, const layout_rules& rules,
                              const plan_limits& within, std::uint32_t* culprit = nullptr) {
  return make_plan(what, std::span(&rules, 1), within, culprit);
}

}  // namespace ringload::inline v0
