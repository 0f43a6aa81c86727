// SPDX-License-Identifier: Apache-2.0
#pragma once

// HDF5's shuffle: of n elements of w bytes first the n lowest bytes, then the n next, and so on;
// what is no whole element stands at the end as it was.

#include <algorithm>
#include <cstddef>
#include <span>

namespace ringload::inline v0 {

namespace detail {

// `Width` 0: `width` says it.
template <std::size_t Width>
void gather_elements(const std::byte* planes, std::size_t count, std::size_t first,
                     std::size_t elements, std::byte* to, std::size_t width) noexcept {
  const std::size_t w = Width == 0 ? width : Width;
  for (std::size_t e = first; e < first + elements; ++e) {
    for (std::size_t b = 0; b < w; ++b) *to++ = planes[b * count + e];
  }
}

}  // namespace detail

// The bytes [at, at + to.size()) of what was shuffled, where `all` is the whole of it, shuffled.
inline void unshuffle(std::span<const std::byte> all, std::size_t width, std::size_t at,
                      std::span<std::byte> to) noexcept {
  const std::size_t count = all.size() / width;
  const std::size_t shuffled = count * width;
  std::size_t done = 0;
  const auto byte_by_byte = [&](std::size_t end) {
    for (; done < end; ++done) {
      const std::size_t i = at + done;
      to[done] = all[i < shuffled ? i % width * count + i / width : i];
    }
  };
  byte_by_byte(std::min(to.size(), (width - at % width) % width));
  if (at + done < shuffled) {
    const std::size_t elements = std::min(to.size() - done, shuffled - at - done) / width;
    const std::size_t first = (at + done) / width;
    std::byte* const out = to.data() + done;
    switch (width) {
      case 2: detail::gather_elements<2>(all.data(), count, first, elements, out, 2); break;
      case 4: detail::gather_elements<4>(all.data(), count, first, elements, out, 4); break;
      case 8: detail::gather_elements<8>(all.data(), count, first, elements, out, 8); break;
      default: detail::gather_elements<0>(all.data(), count, first, elements, out, width);
    }
    done += elements * width;
  }
  byte_by_byte(to.size());
}

}  // namespace ringload::inline v0
