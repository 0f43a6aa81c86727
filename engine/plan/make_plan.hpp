// SPDX-License-Identifier: Apache-2.0
#pragma once

// Turns a `plan_input` into a `plan`. Pure functions.

#include <cstdint>
#include <span>

#include "base/fault.hpp"
#include "plan/plan.hpp"
#include "plan/plan_input.hpp"

namespace ringload::inline v0 {

// How tensors must be placed in the memory of a device.
struct layout_rules {
  std::uint64_t tensor_alignment =
      1;                  // A power of two, at most block_bytes; dtypes may require more.
  bool straight = false;  // Reads can land in the arena.
  // Straight reads are cut where the arena offset crosses a multiple of the slot size. A run of
  // tensors at least this long begins on such a multiple, so that its reads fill whole huge pages.
  // Shorter runs are packed: alignment then wastes at most a sixteenth of the memory.
  std::uint64_t aligned_run_bytes = std::uint64_t{64} << 20;
};

// Placement rules of the destination's arena. For caller memory, any rules will do.
inline const layout_rules& rules_of(std::uint32_t destination, const plan_input& input,
                                    std::span<const layout_rules> rules) noexcept {
  const bool any_rules = rules.size() == 1 || input.is_callers(destination);
  return any_rules ? rules.front() : rules[input.arena_of(destination)];
}

struct plan_limits {
  std::uint64_t slot_bytes;  // A power of two, at least two blocks.
  std::uint64_t arena_bytes_max = ~std::uint64_t{0};
  // Required alignment of the address of a straight read outside an arena block: a power of two, at
  // most block_bytes. 1 if a worker thread copies the bytes that cannot be read in place.
  std::uint64_t direct_alignment = 512;
  // Chains that are read in turns, so that no stream can occupy all slots.
  std::uint32_t streams_at_once = 4;
};

// A read continues across a gap of unwanted bytes shorter than this. 64 KiB take 10 us on a 6 GB/s
// drive, which is less than the cost of another read.
inline constexpr std::uint64_t read_through_bytes = std::uint64_t{64} << 10;

// A tensor in caller memory is read straight if its whole blocks have at least this many bytes. The
// remaining bytes, and smaller tensors, share staged reads with their neighbours.
inline constexpr std::uint64_t straight_bytes_min = read_through_bytes;

// Limit on rows of a slice that lie too far apart for one read. Each such row is a read.
inline constexpr std::uint64_t rows_max = std::uint64_t{1} << 22;

// Fails with errc::memory_exceeded if the arenas would be larger than allowed or a slice has more
// than rows_max rows; errc::fractional_bytes if a box does not end on whole bytes;
// errc::extent_outside_file if a piece leaves its stream; errc::size_overflow; errc::not_mappable
// if a tensor that must be mapped cannot be. If one tensor caused the fault, `culprit` is set to
// its index.
// `rules` has one entry for each arena of the input, or a single entry for all.
result<plan> make_plan(const plan_input& input, std::span<const layout_rules> rules,
                       const plan_limits& within, std::uint32_t* culprit = nullptr);
inline result<plan> make_plan(const plan_input& input, const layout_rules& rules,
                              const plan_limits& within, std::uint32_t* culprit = nullptr) {
  return make_plan(input, std::span(&rules, 1), within, culprit);
}

}  // namespace ringload::inline v0
