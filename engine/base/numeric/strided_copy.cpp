// SPDX-License-Identifier: Apache-2.0

// Copies the elements whose stored bytes are in a range. box_split.hpp splits the range into boxes.
// A box with contiguous elements in source and destination is copied in long runs. A transposed box
// is copied in square tiles, so that each cache line is read and written about once. Other boxes
// are copied line by line.

#include "base/numeric/strided_copy.hpp"

#include <algorithm>
#include <cstring>

#include "base/numeric/box_split.hpp"
#include "base/numeric/convert.hpp"
#include "base/numeric/has_avx2.hpp"

namespace ringload::inline v0 {

namespace {

constexpr axis single_axis = {1, 0, 0};

// Calls `work` with the source and destination address of each element of the box.
template <class Work>
void for_each(const whole_box& box, const std::byte* from, std::byte* to, const Work& work) {
  std::size_t index[strided_map::dimensions_max] = {};
  for (;;) {
    work(from, to);
    unsigned d = box.rank;
    for (; d > 0; --d) {
      const axis& a = box.axes[d - 1];
      from += a.source_stride;
      to += a.destination_stride;
      if (++index[d - 1] < a.count) break;
      from -= static_cast<std::ptrdiff_t>(a.count) * a.source_stride;
      to -= static_cast<std::ptrdiff_t>(a.count) * a.destination_stride;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

template <std::size_t Bytes>
struct word_of;
template <>
struct word_of<1> {
  using type = std::uint8_t;
  static type reversed(type w) { return w; }
};
template <>
struct word_of<2> {
  using type = std::uint16_t;
  static type reversed(type w) { return static_cast<type>((w << 8U) | (w >> 8U)); }
};
template <>
struct word_of<4> {
  using type = std::uint32_t;
  static type reversed(type w) { return __builtin_bswap32(w); }
};
template <>
struct word_of<8> {
  using type = std::uint64_t;
  static type reversed(type w) { return __builtin_bswap64(w); }
};
template <>
struct word_of<16> {
  struct type {
    std::uint64_t low, high;
  };
  static type reversed(type w) { return w; }
};

template <std::size_t Bytes, bool Swap>
[[gnu::always_inline]] inline void copy_word(const std::byte* from, std::byte* to) {
  typename word_of<Bytes>::type word;
  std::memcpy(&word, from, Bytes);
  if constexpr (Swap) word = word_of<Bytes>::reversed(word);
  std::memcpy(to, &word, Bytes);
}

// Swaps the bytes of each element. The elements are contiguous in source and destination. The loop
// has no branch, so optimised builds vectorise the loop if `count` is a constant after inlining.
template <std::size_t Bytes>
[[gnu::always_inline]] inline void swap_batch(const std::byte* __restrict from,
                                              std::byte* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) copy_word<Bytes, true>(from + i * Bytes, to + i * Bytes);
}

template <std::size_t Bytes>
[[gnu::always_inline]] inline void swap_range(const std::byte* from, std::byte* to,
                                              std::size_t count) {
  constexpr std::size_t step = 64;
  for (; count >= step; count -= step, from += step * Bytes, to += step * Bytes) {
    swap_batch<Bytes>(from, to, step);
  }
  swap_batch<Bytes>(from, to, count);
}

#if defined(__x86_64__)
template <std::size_t Bytes>
[[gnu::target("avx2")]] void swap_avx2(const std::byte* from, std::byte* to, std::size_t count) {
  swap_range<Bytes>(from, to, count);
}
#endif

template <std::size_t Bytes>
void swap_run(const std::byte* from, std::byte* to, std::size_t count) {
#if defined(__x86_64__)
  if (has_avx2()) return swap_avx2<Bytes>(from, to, count);
#endif
  swap_range<Bytes>(from, to, count);
}

void swap_bytes_of(const std::byte* from, std::byte* to, std::size_t bytes, std::uint8_t unit) {
  switch (unit) {
    case 2: return swap_run<2>(from, to, bytes / 2);
    case 4: return swap_run<4>(from, to, bytes / 4);
    case 8: return swap_run<8>(from, to, bytes / 8);
    default: std::memcpy(to, from, bytes);
  }
}

// Copies two dimensions in square tiles with rows of about a cache line. `inner` has the smaller
// stride in the destination. `outer` has the smaller stride in the source.
template <std::size_t Bytes, bool Swap>
void copy_tiles(const std::byte* from, std::byte* to, const axis& inner, const axis& outer) {
  constexpr std::size_t tile = Bytes >= 8 ? 8 : Bytes == 4 ? 16 : 32;
  for (std::size_t o = 0; o < outer.count; o += tile) {
    const std::size_t o_end = std::min(o + tile, outer.count);
    for (std::size_t i = 0; i < inner.count; i += tile) {
      const std::size_t i_end = std::min(i + tile, inner.count);
      for (std::size_t a = o; a < o_end; ++a) {
        const auto row = static_cast<std::ptrdiff_t>(a);
        const std::byte* const row_from = from + row * outer.source_stride;
        std::byte* const row_to = to + row * outer.destination_stride;
        for (std::size_t b = i; b < i_end; ++b) {
          const auto index = static_cast<std::ptrdiff_t>(b);
          copy_word<Bytes, Swap>(row_from + index * inner.source_stride,
                                 row_to + index * inner.destination_stride);
        }
      }
    }
  }
}

template <std::size_t Bytes, bool Swap>
void copy_line(const std::byte* from, std::byte* to, const axis& line) {
  for (std::size_t i = 0; i < line.count; ++i) {
    const auto index = static_cast<std::ptrdiff_t>(i);
    copy_word<Bytes, Swap>(from + index * line.source_stride, to + index * line.destination_stride);
  }
}

// Returns the index of the axis with the smallest `stride`. If several axes have the smallest
// stride, returns the innermost of these axes.
unsigned shortest(const whole_box& box, std::ptrdiff_t axis::* stride) {
  unsigned best = 0;
  for (unsigned d = 1; d < box.rank; ++d) {
    if (magnitude(box.axes[d].*stride) <= magnitude(box.axes[best].*stride)) best = d;
  }
  return best;
}

template <std::size_t Bytes, bool Swap>
void copy_words(whole_box box, const std::byte* from, std::byte* to) {
  const axis inner =
      box.rank > 0 ? box.take(shortest(box, &axis::destination_stride)) : single_axis;
  const axis outer = box.rank > 0 ? box.take(shortest(box, &axis::source_stride)) : single_axis;
  // If the same dimension is innermost in source and destination, the box is not a transpose.
  if (magnitude(inner.source_stride) <= magnitude(outer.source_stride) || outer.count == 1) {
    box.axes[box.rank++] = outer;
    for_each(box, from, to,
             [&](const std::byte* f, std::byte* t) { copy_line<Bytes, Swap>(f, t, inner); });
    return;
  }
  for_each(box, from, to,
           [&](const std::byte* f, std::byte* t) { copy_tiles<Bytes, Swap>(f, t, inner, outer); });
}

template <bool Swap>
void copy_words(std::uint32_t bytes, const whole_box& box, const std::byte* from, std::byte* to) {
  switch (bytes) {
    case 2: return copy_words<2, Swap>(box, from, to);
    case 4: return copy_words<4, Swap>(box, from, to);
    case 8: return copy_words<8, Swap>(box, from, to);
    default: break;
  }
  if constexpr (!Swap) {
    if (bytes == 16) return copy_words<16, false>(box, from, to);
    return copy_words<1, false>(box, from, to);
  }
}

// Size of each temporary buffer of a conversion. The buffers have the stored elements, the elements
// with swapped bytes, and the converted elements.
constexpr std::size_t buffer_bytes = 4096;

// Copies one row. An element may have any number of bytes.
void copy_line(const std::byte* from, std::byte* to, const axis& line, std::size_t bytes) {
  switch (bytes) {
    case 1: return copy_line<1, false>(from, to, line);
    case 2: return copy_line<2, false>(from, to, line);
    case 4: return copy_line<4, false>(from, to, line);
    case 8: return copy_line<8, false>(from, to, line);
    default: break;
  }
  for (std::size_t i = 0; i < line.count; ++i) {
    const auto index = static_cast<std::ptrdiff_t>(i);
    std::memcpy(to + index * line.destination_stride, from + index * line.source_stride, bytes);
  }
}

// Converts the elements of `line`. Gathers, swaps, converts and scatters as many elements at a time
// as fit in a buffer. Contiguous elements are not gathered or scattered.
void convert_line(const strided_map& map, const std::byte* from, std::byte* to, const axis& line) {
  const std::size_t in = map.cast.from_bytes();
  const std::size_t out = map.cast.to_bytes();
  const bool gathers = line.source_stride != static_cast<std::ptrdiff_t>(in);
  const bool scatters = line.destination_stride != static_cast<std::ptrdiff_t>(out);
  if (!gathers && !scatters && map.swap_bytes == 0) {
    convert(from, to, line.count, map.cast);
    return;
  }
  alignas(64) std::byte stored[buffer_bytes];
  alignas(64) std::byte swapped[buffer_bytes];
  alignas(64) std::byte converted[buffer_bytes];
  const std::size_t step = std::max<std::size_t>(1, buffer_bytes / std::max(in, out));
  for (std::size_t i = 0; i < line.count; i += step) {
    const std::size_t count = std::min(step, line.count - i);
    const std::byte* source = from + static_cast<std::ptrdiff_t>(i) * line.source_stride;
    std::byte* const target = to + static_cast<std::ptrdiff_t>(i) * line.destination_stride;
    if (gathers) {
      copy_line(source, stored, {count, line.source_stride, static_cast<std::ptrdiff_t>(in)}, in);
      source = stored;
    }
    if (map.swap_bytes != 0) {
      swap_bytes_of(source, swapped, count * in, map.swap_bytes);
      source = swapped;
    }
    convert(source, scatters ? converted : target, count, map.cast);
    if (scatters)
      copy_line(converted, target,
                {count, static_cast<std::ptrdiff_t>(out), line.destination_stride}, out);
  }
}

// A conversion with a transpose works in square tiles with this number of elements in each
// dimension. The rows of a tile are converted into a buffer. Then each column of the buffer is
// copied to one row of the destination.
constexpr std::size_t tile_elements = 32;
static_assert(tile_elements * tile_elements * 8 <= 2 * buffer_bytes);

// Converts two dimensions in square tiles. Unlike in copy_tiles(), `inner` has the smallest stride
// in the source, and `outer` has the smallest stride in the destination.
void convert_tiles(const strided_map& map, const std::byte* from, std::byte* to, const axis& inner,
                   const axis& outer) {
  alignas(64) std::byte tile[2 * buffer_bytes];
  const std::size_t out = map.cast.to_bytes();
  const auto unit = static_cast<std::ptrdiff_t>(out);
  for (std::size_t o = 0; o < outer.count; o += tile_elements) {
    const std::size_t rows = std::min(tile_elements, outer.count - o);
    for (std::size_t i = 0; i < inner.count; i += tile_elements) {
      const std::size_t columns = std::min(tile_elements, inner.count - i);
      const auto row = static_cast<std::ptrdiff_t>(o);
      const auto column = static_cast<std::ptrdiff_t>(i);
      const auto pitch = static_cast<std::ptrdiff_t>(columns) * unit;
      const std::byte* const source =
          from + row * outer.source_stride + column * inner.source_stride;
      for (std::size_t r = 0; r < rows; ++r) {
        const auto index = static_cast<std::ptrdiff_t>(r);
        convert_line(map, source + index * outer.source_stride, tile + index * pitch,
                     {columns, inner.source_stride, unit});
      }
      std::byte* const target =
          to + row * outer.destination_stride + column * inner.destination_stride;
      for (std::size_t c = 0; c < columns; ++c) {
        const auto index = static_cast<std::ptrdiff_t>(c);
        copy_line(tile + index * unit, target + index * inner.destination_stride,
                  {rows, pitch, outer.destination_stride}, out);
      }
    }
  }
}

void convert_box(const strided_map& map, whole_box box, const std::byte* from, std::byte* to) {
  const axis inner = box.rank > 0 ? box.take(shortest(box, &axis::source_stride)) : single_axis;
  // Quantised blocks need no tiles, because a converted block fills at least one cache line.
  const bool transposed = box.rank > 0 && !is_block(map.cast.from) && [&] {
    return magnitude(box.axes[shortest(box, &axis::destination_stride)].destination_stride) <
           magnitude(inner.destination_stride);
  }();
  if (!transposed) {
    for_each(box, from, to,
             [&](const std::byte* f, std::byte* t) { convert_line(map, f, t, inner); });
    return;
  }
  const axis outer = box.take(shortest(box, &axis::destination_stride));
  for_each(box, from, to,
           [&](const std::byte* f, std::byte* t) { convert_tiles(map, f, t, inner, outer); });
}

// Copies elements without a conversion. Swaps their bytes if needed.
void copy_box(const strided_map& map, whole_box box, const std::byte* from, std::byte* to) {
  const auto unit = static_cast<std::ptrdiff_t>(map.element_bytes);
  unsigned run = 0;
  while (run < box.rank &&
         (box.axes[run].source_stride != unit || box.axes[run].destination_stride != unit))
    ++run;
  if (run == box.rank) {
    if (map.swap_bytes != 0) return copy_words<true>(map.element_bytes, box, from, to);
    return copy_words<false>(map.element_bytes, box, from, to);
  }
  const std::size_t bytes = box.take(run).count * map.element_bytes;
  const auto width = static_cast<std::uint32_t>(std::min<std::size_t>(bytes, 32));
  if (map.swap_bytes == 0 && has_word_width(width)) {
    return copy_words<false>(width, box, from, to);
  }
  if (map.swap_bytes == 0) {
    for_each(box, from, to, [&](const std::byte* f, std::byte* t) { std::memcpy(t, f, bytes); });
    return;
  }
  for_each(box, from, to,
           [&](const std::byte* f, std::byte* t) { swap_bytes_of(f, t, bytes, map.swap_bytes); });
}

void copy_whole(const strided_map& map, const whole_box& box, const std::byte* from,
                std::byte* to) {
  if (map.cast.needed()) return convert_box(map, box, from, to);
  copy_box(map, box, from, to);
}

}  // namespace

void copy_strided(const strided_map& map, std::span<const std::byte> source, std::uint64_t first,
                  std::byte* to) noexcept {
  for_each_whole_box(
      map, first, source.size(),
      [&](const whole_box& box, std::uint64_t from_offset, std::ptrdiff_t to_offset) {
        copy_whole(map, box, source.data() + from_offset, to + to_offset);
      });
}

}  // namespace ringload::inline v0
