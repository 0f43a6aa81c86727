// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes the sizes and offsets of the arenas while make_plan() builds a plan. An arena is an
// allocation for tensors. A new tensor is placed at the end of its arena. Mapped tensors are placed
// in mappings of their files. Each pair of a file and a requested arena has one mapping. `arenas_`
// lists the requested arenas, then the mappings.

#include <cstdint>
#include <vector>

#include "base/fault.hpp"
#include "base/range.hpp"
#include "plan/plan.hpp"
#include "plan/plan_input.hpp"

namespace ringload::inline v0 {

class arena_layout {
 public:
  struct position {
    std::uint32_t destination = 0;  // The destination number, as in plan.hpp.
    std::uint64_t offset = 0;
  };

  explicit arena_layout(const plan_input& input);

  // Reserves bytes at the end of the arena `destination`. Returns errc::size_overflow if the sum of
  // the sizes exceeds 64 bits.
  result<position> reserve(std::uint32_t destination, std::uint64_t bytes, std::uint64_t alignment);
  // Adds bytes of a file to the mapping of the file, and returns their place. The caller must pass
  // the bytes in the order of the file numbers, and in the order of the offsets within a file.
  position map_range(std::uint32_t destination, std::uint32_t file, range bytes);
  // Aligns the address of the arena to 4 KiB (block_bytes), because direct reads write to the
  // arena.
  void align_to_blocks(std::uint32_t destination);
  // Marks the arena as used, so that finish() reserves at least one byte. Called for an empty
  // tensor, which needs an aligned address but no bytes.
  void use(std::uint32_t destination, std::uint64_t alignment);

  // Returns the sum of the sizes of the allocated arenas, without the mappings.
  std::uint64_t bytes() const noexcept { return bytes_; }

  // Must be called once, after all tensors have their places.
  std::vector<planned_arena> finish();

 private:
  planned_arena& arena_at(std::uint32_t destination) {
    return arenas_[input_.arena_of(destination)];
  }

  const plan_input& input_;
  const std::uint64_t granule_;  // Sizes are rounded up to a multiple of this number.
  std::vector<planned_arena> arenas_;
  std::vector<bool> used_;  // Indexed by requested arena.
  // Indexed by requested arena: the newest mapping for this arena. no_index if the arena has no
  // mapping.
  std::vector<std::uint32_t> mapping_;
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0
