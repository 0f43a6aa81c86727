// SPDX-License-Identifier: Apache-2.0
#pragma once

// The types of quantised blocks. The specialisations of block_format define the layouts.

#include <cstdint>

#include "base/numeric/element_kind.hpp"

namespace ringload {
inline namespace v0 {

enum class block_type : std::uint8_t {
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  q8_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};

constexpr unsigned block_type_count = 14;

namespace blocks {

constexpr element_kind kind_of(block_type type) noexcept {
  return static_cast<element_kind>(static_cast<unsigned>(element_kind::blocks) +
                                   static_cast<unsigned>(type));
}
constexpr unsigned bytes_of(block_type type) noexcept { return ringload::bytes_of(kind_of(type)); }
constexpr unsigned elements_of(block_type type) noexcept {
  return ringload::elements_of(kind_of(type));
}

}  // namespace blocks

// The format of one type of block. A run is a sequence of elements of one block that have the same
// scale. Each specialisation has these members:
//
// - the number of elements and bytes of a block
// - the number of elements of a run, at most 32
// - `has_minimum`, which is true if the minimum of a run is added to each element after scaling
// - shared(), which returns the values that all runs of a block share
// - run(), which returns one run of a block
// - number(), which returns the quantised integer of one element of a run, before scaling
template <block_type>
struct block_format;

}  // namespace v0
}  // namespace ringload
