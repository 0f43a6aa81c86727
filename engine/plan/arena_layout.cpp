// SPDX-License-Identifier: Apache-2.0
#include "plan/arena_layout.hpp"

#include <algorithm>

#include "core/block.hpp"
#include "core/checked.hpp"

namespace ringload::inline v0 {

arena_layout::arena_layout(const plan_input& of)
    : of_(of),
      granule_(of.arenas == 1 ? block_bytes : 1),
      all_(of.arenas),
      used_(of.arenas),
      mapping_(of.arenas, no_index) {
  if (of.arenas == 1 && of.views == view_wish::none) use(0);
}

result<arena_layout::place> arena_layout::reserve(std::uint32_t destination, std::uint64_t bytes,
                                                  std::uint64_t alignment) {
  planned_arena& in = at(destination);
  const auto padded = checked_add(in.bytes, alignment - 1);
  const std::uint64_t begin = padded ? round_down(*padded, alignment) : 0;
  const auto end = padded ? checked_add(begin, bytes) : std::nullopt;
  const auto sum = end ? checked_add(bytes_, *end - in.bytes) : std::nullopt;
  // One block is kept back, so that the sizes can be rounded up without looking.
  if (!sum || *sum > ~std::uint64_t{0} - block_bytes) {
    return fault{errc::size_overflow, "", "the tensors' bytes do not add up within 64 bits"};
  }
  bytes_ = *sum;
  in.bytes = *end;
  in.alignment =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(alignment, in.alignment, block_bytes));
  used_[of_.arena_of(destination)] = true;
  return place{destination, begin};
}

arena_layout::place arena_layout::view(std::uint32_t destination, std::uint32_t file, range bytes) {
  std::uint32_t& mapping = mapping_[of_.arena_of(destination)];
  if (mapping == no_index || all_[mapping].file != file) {
    mapping = static_cast<std::uint32_t>(all_.size());
    planned_arena& made = all_.emplace_back();
    made.alignment = block_bytes;
    made.file = file;
    made.file_offset = round_down(bytes.begin, std::uint64_t{block_bytes});
  }
  planned_arena& in = all_[mapping];
  in.bytes = std::max(in.bytes, bytes.end - in.file_offset);
  return {of_.destination_of(mapping), bytes.begin - in.file_offset};
}

void arena_layout::align_to_blocks(std::uint32_t destination) {
  at(destination).alignment = block_bytes;
}

void arena_layout::use(std::uint32_t destination) { used_[of_.arena_of(destination)] = true; }

std::vector<planned_arena> arena_layout::finish() {
  for (std::uint32_t a = 0; a < of_.arenas; ++a) {
    if (!used_[a]) continue;
    const std::uint64_t bytes = round_up(std::max<std::uint64_t>(all_[a].bytes, 1), granule_);
    bytes_ += bytes - all_[a].bytes;
    all_[a].bytes = bytes;
    if (granule_ == block_bytes) all_[a].alignment = block_bytes;
  }
  return std::move(all_);
}

}  // namespace ringload::inline v0
