// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes a strided copy of an n-dimensional box. Used for slices, transposed tensors and
// broadcasts. Host code and GPU kernels include this file. CUDA compiles this file as C++17.
//
// Source offsets are relative to the first stored byte of the map. Destination offsets are relative
// to the address of element (0, 0, ...). The source offset of element (i, j, ...) is
// i * dimensions[0].source_stride + j * dimensions[1].source_stride + ...

#include <cstdint>

#include "base/numeric/convert_float.hpp"

namespace ringload {
inline namespace v0 {

// Returns true if elements of this size can be copied as machine words.
inline bool has_word_width(std::uint32_t bytes) noexcept {
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
}

inline std::uint64_t magnitude(std::int64_t stride) noexcept {
  return stride < 0 ? 0 - static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
}

struct strided_dimension {
  std::uint64_t count;
  std::uint64_t source_stride;      // In bytes. A stride of 0 broadcasts one stored element.
  std::int64_t destination_stride;  // In bytes. May be negative.
};

inline bool operator==(const strided_dimension& a, const strided_dimension& b) noexcept {
  return a.count == b.count && a.source_stride == b.source_stride &&
         a.destination_stride == b.destination_stride;
}

// The function coalesced() builds maps: the function removes dimensions of size 1, sorts the other
// dimensions by descending source stride, and merges contiguous dimensions. If elements are
// contiguous, and are neither swapped nor converted, their bytes become one dimension with both
// strides 1. A copy of a part of this map can begin and end at any byte.
struct strided_map {
  static constexpr std::uint32_t dimensions_max = 8;

  strided_dimension dimensions[dimensions_max] = {};
  std::uint32_t rank = 0;  // Number of dimensions. 0 for a single element.
  // Number of stored bytes of an element of the map. A copy never splits an element of the map.
  // Without a conversion, coalesced() may choose smaller elements than the tensor has. With a
  // conversion, an element of the map is one element or one quantised block of `cast.from`.
  std::uint32_t element_bytes = 1;
  // Size of the units whose bytes are swapped: 2, 4 or 8, or 0 for no swap. The swap is done before
  // the conversion.
  std::uint8_t swap_bytes = 0;
  conversion cast = {};

  std::uint32_t destination_element_bytes() const noexcept {
    return cast.needed() ? cast.to_bytes() : element_bytes;
  }

  bool empty() const noexcept {
    for (std::uint32_t d = 0; d < rank; ++d) {
      if (dimensions[d].count == 0) return true;
    }
    return false;
  }

  // Returns the distance from the first stored byte to the end of the last element.
  std::uint64_t source_bytes() const noexcept {
    if (empty()) return 0;
    std::uint64_t sum = element_bytes;
    for (std::uint32_t d = 0; d < rank; ++d) {
      sum += (dimensions[d].count - 1) * dimensions[d].source_stride;
    }
    return sum;
  }
};

inline bool operator==(const strided_map& a, const strided_map& b) noexcept {
  if (a.rank != b.rank || a.element_bytes != b.element_bytes || a.swap_bytes != b.swap_bytes ||
      !(a.cast == b.cast)) {
    return false;
  }
  for (std::uint32_t d = 0; d < a.rank; ++d) {
    if (!(a.dimensions[d] == b.dimensions[d])) return false;
  }
  return true;
}

}  // namespace v0
}  // namespace ringload
