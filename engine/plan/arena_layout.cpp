// SPDX-License-Identifier: Apache-2.0

#include "plan/arena_layout.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/io_unit.hpp"

namespace ringload::inline v0 {

arena_layout::arena_layout(const plan_input& input)
    : input_(input),
      granule_(input.arenas == 1 ? block_bytes : 1),
      arenas_(input.arenas),
      used_(input.arenas),
      mapping_(input.arenas, no_index) {
  if (input.arenas == 1 && input.mapping == mapping_request::none) used_[0] = true;
}

result<arena_layout::position> arena_layout::reserve(std::uint32_t destination, std::uint64_t bytes,
                                                     std::uint64_t alignment) {
  planned_arena& arena = arena_at(destination);
  const auto padded = checked_add(arena.bytes, alignment - 1);
  const std::uint64_t begin = padded ? round_down(*padded, alignment) : 0;
  const auto end = padded ? checked_add(begin, bytes) : std::nullopt;
  const auto sum = end ? checked_add(bytes_, *end - arena.bytes) : std::nullopt;
  // The limit is block_bytes (4 KiB) below the maximum, so that finish() can round sizes up without
  // an overflow check.
  if (!sum || *sum > ~std::uint64_t{0} - block_bytes) {
    return fault{errc::size_overflow, "", "the total size of the tensors does not fit in 64 bits"};
  }
  bytes_ = *sum;
  arena.bytes = *end;
  use(destination, alignment);
  return position{destination, begin};
}

arena_layout::position arena_layout::map_range(std::uint32_t destination, std::uint32_t file,
                                               range bytes) {
  std::uint32_t& mapping = mapping_[input_.arena_of(destination)];
  if (mapping == no_index || arenas_[mapping].file != file) {
    mapping = static_cast<std::uint32_t>(arenas_.size());
    planned_arena& mapping_arena = arenas_.emplace_back();
    mapping_arena.alignment = block_bytes;
    mapping_arena.file = file;
    mapping_arena.file_offset = round_down(bytes.begin, std::uint64_t{block_bytes});
  }
  planned_arena& arena = arenas_[mapping];
  arena.bytes = std::max(arena.bytes, bytes.end - arena.file_offset);
  return {input_.destination_of(mapping), bytes.begin - arena.file_offset};
}

void arena_layout::align_to_blocks(std::uint32_t destination) {
  arena_at(destination).alignment = block_bytes;
}

void arena_layout::use(std::uint32_t destination, std::uint64_t alignment) {
  planned_arena& arena = arena_at(destination);
  arena.alignment = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(alignment, arena.alignment, block_bytes));
  used_[input_.arena_of(destination)] = true;
}

std::vector<planned_arena> arena_layout::finish() {
  for (std::uint32_t a = 0; a < input_.arenas; ++a) {
    if (!used_[a]) continue;
    const std::uint64_t bytes = round_up(std::max<std::uint64_t>(arenas_[a].bytes, 1), granule_);
    bytes_ += bytes - arenas_[a].bytes;
    arenas_[a].bytes = bytes;
    if (granule_ == block_bytes) arenas_[a].alignment = block_bytes;
  }
  return std::move(arenas_);
}

}  // namespace ringload::inline v0
