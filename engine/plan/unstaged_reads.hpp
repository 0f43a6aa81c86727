// SPDX-License-Identifier: Apache-2.0
#pragma once

// Plans unstaged reads, which write to their destination directly, without a slot and a copy.
// plan.hpp explains the terms.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/arena_layout.hpp"
#include "plan/plan.hpp"
#include "plan/split_pieces.hpp"

namespace ringload::inline v0 {

// Unstaged tensors that share reads. The tensors of a run are in the same arena, have the same
// shift, and are close together in the file. The run consists of the items in [first, last) for
// which takes() returns true. Items in caller memory or in an arena block do not belong to a run.
struct unstaged_run {
  std::uint32_t first;
  std::uint32_t last;
  std::uint64_t end;  // End of the bytes of the run in the file.
  // True if the run ends because the next tensor is close in the file, but in another arena.
  bool is_cut = false;

  static bool takes(const stored_item& item) noexcept {
    return item.unstaged && item.has_own_place;
  }
};

// Returns the run that begins with items[first], which must be unstaged. The run ends at `last` or
// earlier.
unstaged_run run_from(std::uint32_t first, std::uint32_t last, std::span<const stored_item> items);

// Returns the indices of the replicas of the run's items, in ascending order.
std::vector<std::uint32_t> replicas_of(const unstaged_run& run, std::span<const stored_item> items);

// Adds the reads of a run. `to` is the place of the 4 KiB block that contains the first byte of the
// run. This function adds the shift of the run to `to`. Reads are split at arena offsets that are
// multiples of the slot size. This function also adds the copies to the replicas of the run, so the
// replicas must already have their places.
void add_run_reads(const unstaged_run& run, arena_layout::position to,
                   std::span<const stored_item> items, std::uint64_t slot_bytes, plan& new_plan);

// Adds the reads of an unstaged item in caller memory or in an arena block. The item must begin and
// end at multiples of 4 KiB in the file. `part` is the index of the item in new_plan.parts.
void add_unstaged_reads(std::uint32_t part, const stored_item& item, std::uint64_t slot_bytes,
                        plan& new_plan);

}  // namespace ringload::inline v0
