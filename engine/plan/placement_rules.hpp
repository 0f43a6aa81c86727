// SPDX-License-Identifier: Apache-2.0
#pragma once

// The placement rules of a device and the limits of a loader. All planning steps use these rules
// and limits. plan.hpp explains the terms.

#include <cstdint>
#include <span>

#include "plan/plan_input.hpp"

namespace ringload::inline v0 {

struct placement_rules {
  // Minimum alignment of a tensor: a power of two, at most block_bytes. An element type may require
  // a larger alignment.
  std::uint64_t tensor_alignment = 1;
  bool unstaged = false;  // True if reads can write directly to the arena.
  // Unstaged reads are split at arena offsets that are multiples of the slot size. A run is a
  // sequence of tensors that share unstaged reads. A run of at least `aligned_run_bytes` begins at
  // a multiple of the slot size, so that its reads fill whole huge pages. Shorter runs are not
  // aligned. With slots of 4 MiB, the alignment therefore wastes at most a sixteenth of the memory.
  std::uint64_t aligned_run_bytes = std::uint64_t{64} << 20;
};

// Returns the rules of the arena `destination`. For caller memory, returns the rules of the first
// arena.
inline const placement_rules& rules_of(std::uint32_t destination, const plan_input& input,
                                       std::span<const placement_rules> rules) noexcept {
  const bool any_rules = rules.size() == 1 || input.is_caller_memory(destination);
  return any_rules ? rules.front() : rules[input.arena_of(destination)];
}

struct plan_limits {
  std::uint64_t slot_bytes;  // A power of two, at least 2 * block_bytes.
  std::uint64_t arena_bytes_max = ~std::uint64_t{0};
  const char* arena_bytes_max_name = "arena_bytes_max";  // For error texts.
  // Required alignment of the destination address of an unstaged read into an arena block or caller
  // memory. A power of two, at most block_bytes. The loader sets 1, because a worker copies the
  // bytes if the address is not aligned for the direct read.
  std::uint64_t direct_alignment = 512;
  // Number of chains (streams with several reads) that are read in turns, so that no stream can
  // occupy all slots.
  std::uint32_t streams_at_once = 4;
};

// A read continues across a gap of unwanted bytes if the gap is shorter than this size. A drive
// with 6 GB/s takes 10 us for 64 KiB, which is less than the cost of another read.
inline constexpr std::uint64_t gap_bytes_max = std::uint64_t{64} << 10;

// A tensor in caller memory or in an arena block is read without staging if its whole 4 KiB blocks
// have at least this number of bytes. The remaining bytes, and smaller tensors, share staged reads
// with their neighbours.
inline constexpr std::uint64_t unstaged_bytes_min = gap_bytes_max;

}  // namespace ringload::inline v0
