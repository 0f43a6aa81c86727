// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arenas of a plan while it is made. Each is filled from its beginning; views lie in mappings
// of their files, one for each file and arena, which follow the arenas that were asked for.

#include <cstdint>
#include <vector>

#include "core/fault.hpp"
#include "core/range.hpp"
#include "plan/plan.hpp"
#include "plan/wanted.hpp"

namespace ringload::inline v0 {

class arena_layout {
 public:
  struct place {
    std::uint32_t destination = 0;  // As in a plan.
    std::uint64_t offset = 0;
  };

  explicit arena_layout(const plan_input& of);

  // Room at the end of an arena, which `destination` names. Fails with errc::size_overflow.
  result<place> reserve(std::uint32_t destination, std::uint64_t bytes, std::uint64_t alignment);
  // The place of a file's bytes in its mapping. Of one mapping in the order of the file; files in
  // turn.
  place view(std::uint32_t destination, std::uint32_t file, range bytes);
  // Reads land in it.
  void align_to_blocks(std::uint32_t destination);
  // An empty tensor lies there: the arena is made, though it may need no byte.
  void use(std::uint32_t destination);

  // Of all that are allocated.
  std::uint64_t bytes() const noexcept { return bytes_; }

  // Once everything has its place.
  std::vector<planned_arena> finish();

 private:
  planned_arena& at(std::uint32_t destination) { return all_[of_.arena_of(destination)]; }

  const plan_input& of_;
  const std::uint64_t granule_;  // What sizes are rounded up to.
  std::vector<planned_arena> all_;
  std::vector<bool> used_;              // By arena that was asked for.
  std::vector<std::uint32_t> mapping_;  // By arena that was asked for: its last one, or no_index.
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0
