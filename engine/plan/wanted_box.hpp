// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes the box of wanted elements of one tensor, with its strides in the file and in the
// destination.

#include <cstdint>
#include <vector>

#include "base/fault.hpp"
#include "base/numeric/strided_copy.hpp"
#include "base/range.hpp"
#include "plan/plan_input.hpp"

namespace ringload::inline v0 {

struct wanted_dimension {
  range wanted;
  std::uint64_t size;
  std::uint64_t source_stride;  // In bytes, for a tensor that is stored in row-major order.
  std::int64_t destination_stride;
};

// If elements have fewer than 8 bits, the innermost dimension of the box counts bytes instead of
// elements.
struct wanted_box {
  element_form element;
  std::uint32_t destination_element_bytes = 1;  // Number of bytes of an element in the destination.
  std::vector<wanted_dimension> dimensions;
  std::uint64_t bytes = 0;  // Number of bytes of the box in the destination, without gaps.

  std::uint64_t elements() const;
};

fault bytes_overflow();

// Returns errc::size_overflow if a size exceeds 64 bits. Returns errc::fractional_bytes if a
// contiguous run of wanted elements does not begin and end on a whole byte.
result<wanted_box> box_of(const tensor_form& form, const conversion& cast);

// Returns errc::memory_exceeded if a byte of the box would be outside of the destination. The
// destination is an arena block or caller memory, and has `destination_bytes` bytes. A box without
// elements always fits.
result<void> check_destination_size(const tensor_form& form, const wanted_box& box,
                                    std::uint64_t destination_bytes);

}  // namespace ringload::inline v0
