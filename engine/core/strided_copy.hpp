// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes strided maps in their shortest form, and runs them on the CPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/strided_map.hpp"

namespace ringload::inline v0 {

// How each element of a box is transformed.
struct element_form {
  std::uint32_t bytes = 1;      // As stored; if it is converted, as.from_bytes().
  std::uint8_t swap_bytes = 0;  // Divides `bytes`.
  conversion as = {};
};

// A box of any rank, in the caller's order, as a map. Dimensions beyond strided_map::dimensions_max
// are put into `outer`: the caller runs the map once for each of their elements.
struct coalesced_box {
  strided_map map;
  std::vector<strided_dimension> outer;
};
coalesced_box coalesced(std::span<const strided_dimension> box, const element_form& element);

// Copies those elements of `map` whose stored bytes are all in [first, first + source.size()),
// swapped and converted. `source` begins with the map's stored byte `first`; `to` is the address of
// the element at index (0, 0, ...), aligned or not. Consecutive ranges that overlap by an element
// less one byte write each element exactly once.
void copy_strided(const strided_map& map, std::span<const std::byte> source, std::uint64_t first,
                  std::byte* to) noexcept;

}  // namespace ringload::inline v0
