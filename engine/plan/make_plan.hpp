// SPDX-License-Identifier: Apache-2.0
#pragma once

// From the extents that are wanted to the plan that brings them: arithmetic alone.

#include <cstdint>
#include <span>

#include "core/fault.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0 {

// A wanted tensor.
struct extent {
  std::uint32_t file;
  std::uint32_t alignment;  // What its element type needs once it has landed: 1, 2, 4 or 8.
  std::uint64_t offset;
  std::uint64_t bytes;  // In the file. If they are converted, whole elements.
  conversion as = {};
};

// How a device wants its tensors.
struct layout_rules {
  std::uint64_t tensor_alignment =
      1;                  // A power of two, at most block_bytes; dtypes may ask for more.
  bool straight = false;  // Reads can land in the arena.
  // Straight reads are cut where the arena crosses a multiple of the slot size. A run of tensors at
  // least this long begins on such a multiple, so that its reads fill whole huge pages. Shorter
  // runs are packed: at most a sixteenth of what this costs is wasted.
  std::uint64_t aligned_run_bytes = std::uint64_t{32} << 20;
};

// Reads go on through bytes that nobody wants if they are fewer than this. A read less is worth
// more than 64 KiB: 10 us of a drive that gives 6 GB/s, which is less than a read takes.
inline constexpr std::uint64_t read_through_bytes = std::uint64_t{64} << 10;

// `wanted` stands in the order of (file, offset), and its extents do not overlap. `slot_bytes` is a
// power of two, at least one block, or two where something is converted. Fails with
// errc::memory_exceeded when the arena would be larger than `arena_bytes_max`.
result<plan> make_plan(std::span<const extent> wanted, const layout_rules& rules,
                       std::uint64_t slot_bytes, std::uint64_t arena_bytes_max);

}  // namespace ringload::inline v0
