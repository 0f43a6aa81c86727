// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reverses the shuffle filter of HDF5. A shuffled chunk contains the first bytes of all elements,
// then the second bytes of all elements, and so on. If the last element is incomplete, its bytes
// are unchanged at the end of the chunk.

#include <algorithm>
#include <cstddef>
#include <span>

namespace ringload::inline v0 {

namespace detail {

// Writes the original elements [first, first + elements) to `to`. `planes` is a shuffled chunk of
// `count` elements. `Width` is the element width, or 0 if the width is not known at compile time.
// `width` is always the element width.
template <std::size_t Width>
void gather_elements(const std::byte* planes, std::size_t count, std::size_t first,
                     std::size_t elements, std::byte* to, std::size_t width) noexcept {
  const std::size_t w = Width == 0 ? width : Width;
  for (std::size_t e = first; e < first + elements; ++e) {
    for (std::size_t b = 0; b < w; ++b) *to++ = planes[b * count + e];
  }
}

}  // namespace detail

// Writes the bytes [offset, offset + to.size()) of the original chunk to `to`. `shuffled_bytes`
// must be the whole shuffled chunk.
inline void unshuffle(std::span<const std::byte> shuffled_bytes, std::size_t width,
                      std::size_t offset, std::span<std::byte> to) noexcept {
  const std::size_t count = shuffled_bytes.size() / width;
  const std::size_t shuffled = count * width;
  std::size_t position = 0;
  const auto byte_by_byte = [&](std::size_t end) {
    for (; position < end; ++position) {
      const std::size_t i = offset + position;
      to[position] = shuffled_bytes[i < shuffled ? i % width * count + i / width : i];
    }
  };
  byte_by_byte(std::min(to.size(), (width - offset % width) % width));
  if (offset + position < shuffled) {
    const std::size_t elements =
        std::min(to.size() - position, shuffled - offset - position) / width;
    const std::size_t first = (offset + position) / width;
    std::byte* const out = to.data() + position;
    switch (width) {
      case 2:
        detail::gather_elements<2>(shuffled_bytes.data(), count, first, elements, out, 2);
        break;
      case 4:
        detail::gather_elements<4>(shuffled_bytes.data(), count, first, elements, out, 4);
        break;
      case 8:
        detail::gather_elements<8>(shuffled_bytes.data(), count, first, elements, out, 8);
        break;
      default:
        detail::gather_elements<0>(shuffled_bytes.data(), count, first, elements, out, width);
    }
    position += elements * width;
  }
  byte_by_byte(to.size());
}

}  // namespace ringload::inline v0
