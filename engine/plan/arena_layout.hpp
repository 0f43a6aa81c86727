// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sizes and offsets of the arenas while a plan is built. Tensors are appended to each arena. Mapped
// tensors lie in mappings of their files, one for each pair of file and arena. The mappings follow
// the requested arenas in the list.

#include <cstdint>
#include <vector>

#include "base/fault.hpp"
#include "base/range.hpp"
#include "plan/plan.hpp"
#include "plan/plan_input.hpp"

namespace ringload::inline v0 {

class arena_layout {
 public:
  struct place {
    std::uint32_t destination = 0;  // Numbered as in a plan.
    std::uint64_t offset = 0;
  };

  explicit arena_layout(const plan_input& input);

  // Reserves bytes at the end of the arena `destination`. Fails with errc::size_overflow.
  result<place> reserve(std::uint32_t destination, std::uint64_t bytes, std::uint64_t alignment);
  // Returns the place of a file's bytes in the file's mapping. The caller must finish one file
  // before the next, and must call in file order.
  place view(std::uint32_t destination, std::uint32_t file, range bytes);
  // Aligns the arena to blocks because reads land in it.
  void align_to_blocks(std::uint32_t destination);
  // Marks the arena as used because an empty tensor lies in it. The arena is then allocated even if
  // no tensor needs a byte.
  void use(std::uint32_t destination);

  // Sum over the allocated arenas, without the mappings.
  std::uint64_t bytes() const noexcept { return bytes_; }

  // Must be called once, after all tensors have their places.
  std::vector<planned_arena> finish();

 private:
  planned_arena& arena_at(std::uint32_t destination) {
    return arenas_[input_.arena_of(destination)];
  }

  const plan_input& input_;
  const std::uint64_t granule_;  // Sizes are rounded up to a multiple of it.
  std::vector<planned_arena> arenas_;
  std::vector<bool> used_;  // Indexed by requested arena.
  // Indexed by requested arena: its newest mapping, or no_index.
  std::vector<std::uint32_t> mapping_;
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0
