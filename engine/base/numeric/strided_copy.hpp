// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds strided maps with as few dimensions as possible, and copies their elements on the CPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/numeric/strided_map.hpp"

namespace ringload::inline v0 {

struct element_form {
  // Number of stored bytes. Must be cast.from_bytes() if the element is converted.
  std::uint32_t bytes = 1;
  // Size of the units whose bytes are swapped. Must divide `bytes`. 0 for no swap.
  std::uint8_t swap_bytes = 0;
  conversion cast = {};
};

// The map of a box of any rank. The box may list its dimensions in any order. A map has at most
// strided_map::dimensions_max dimensions. If the box has more dimensions, `outer` has the outermost
// dimensions. The caller must use the map once for each combination of indices in these outer
// dimensions.
struct coalesced_box {
  strided_map map;
  std::vector<strided_dimension> outer;
};
coalesced_box coalesced(std::span<const strided_dimension> box, const element_form& element);

// Copies, swaps and converts the elements of `map` whose stored bytes are all in [first, first +
// source.size()). `source` begins with byte `first` of the map's stored bytes. `to` is the address
// of element (0, 0, ...), with any alignment. The caller may copy a map in several ranges: if
// consecutive ranges overlap by one byte less than an element, each element is written once.
void copy_strided(const strided_map& map, std::span<const std::byte> source, std::uint64_t first,
                  std::byte* to) noexcept;

}  // namespace ringload::inline v0
