// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds strided maps in their shortest form and runs them on the CPU.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/numeric/strided_map.hpp"

namespace ringload::inline v0 {

// The layout of one element of a box and its conversion.
struct element_form {
  std::uint32_t bytes = 1;      // Stored bytes; cast.from_bytes() if the element is converted.
  std::uint8_t swap_bytes = 0;  // A divisor of `bytes`.
  conversion cast = {};
};

// A box of any rank as a map; the caller chooses the order of the dimensions. Dimensions beyond
// strided_map::dimensions_max are put into `outer`, and the caller runs the map once for each of
// their indices.
struct coalesced_box {
  strided_map map;
  std::vector<strided_dimension> outer;
};
coalesced_box coalesced(std::span<const strided_dimension> box, const element_form& element);

// Copies, swaps and converts the elements of `map` whose stored bytes all lie in [first, first +
// source.size()). `source` begins with the map's stored byte `first`. `to` is the address of
// element (0, 0, ...), aligned or not. Consecutive ranges that overlap by one element less one byte
// write each element exactly once.
void copy_strided(const strided_map& map, std::span<const std::byte> source, std::uint64_t first,
                  std::byte* to) noexcept;

}  // namespace ringload::inline v0
