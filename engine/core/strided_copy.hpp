// SPDX-License-Identifier: Apache-2.0
#pragma once

// Strided maps: made as short as they can be, and carried out by the processor.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/strided_map.hpp"

namespace ringload::inline v0 {

// What is done to each element of a box.
struct element_form {
  std::uint32_t bytes = 1;      // As stored; if it is converted, as.from_bytes().
  std::uint8_t swap_bytes = 0;  // Divides `bytes`.
  conversion as = {};
};

// A box of any number of dimensions, in the caller's order, as a map. The dimensions that are left
// over where more than strided_map::dimensions_max remain stand in `outer`: the map is to be
// carried out once for each of their elements.
struct coalesced_box {
  strided_map map;
  std::vector<strided_dimension> outer;
};
coalesced_box coalesced(std::span<const strided_dimension> box, const element_form& element);

// Of the elements of `map`, those all of whose stored bytes lie in [first, first + source.size())
// are swapped, converted, and written to their places. `source` begins with the map's stored byte
// `first`; `to` is where the element at index (0, 0, ...) goes, aligned or not. Ranges that overlap
// by one byte less than an element, and otherwise follow one another, write each element once.
void copy_strided(const strided_map& map, std::span<const std::byte> source, std::uint64_t first,
                  std::byte* to) noexcept;

}  // namespace ringload::inline v0
