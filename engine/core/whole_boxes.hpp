// SPDX-License-Identifier: Apache-2.0
#pragma once

// A range of stored bytes cuts the box of a strided map into a few boxes that lie in it completely:
// whoever copies those need not look at the range again.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/strided_map.hpp"

namespace ringload::inline v0 {

// A dimension of one box in memory, with its strides in bytes.
struct axis {
  std::size_t count;
  std::ptrdiff_t from;
  std::ptrdiff_t to;
};

// Of more than one element in each of its dimensions.
struct whole_box {
  axis axes[strided_map::dimensions_max];
  unsigned rank = 0;

  axis take(unsigned which) {
    const axis taken = axes[which];
    std::copy(axes + which + 1, axes + rank, axes + which);
    --rank;
    return taken;
  }
};

// `visit` is called with a box, with the distance of its first element from the range's beginning,
// and with that of the place where this goes from the map's destination.
template <class Visit>
class range_walk {
 public:
  range_walk(const strided_map& map, std::uint64_t first, std::uint64_t bytes, const Visit& visit)
      : map_(map), first_(first), last_(first + bytes), visit_(visit) {
    span_[map.rank] = map.element_bytes;
    for (std::uint32_t d = map.rank; d > 0; --d) {
      const strided_dimension& of = map.dimensions[d - 1];
      span_[d - 1] = span_[d] + (of.count - 1) * of.source_stride;
    }
  }

  // Visits dimensions from `d` on; their first element is stored at `at`. Dimensions are sorted by
  // descending source stride, so the range cuts at most two indices of each.
  void descend(std::uint32_t d, std::uint64_t at, std::ptrdiff_t to) const {
    if (at >= first_ && at + span_[d] <= last_) return copy(d, 0, count_of(d), at, to);
    if (d == map_.rank || at >= last_ || at + span_[d] <= first_) return;
    const std::uint64_t count = map_.dimensions[d].count;
    const std::uint64_t stride = map_.dimensions[d].source_stride;
    if (stride == 0) return each(d, 0, count, at, to);
    const std::uint64_t inner = span_[d + 1];
    const std::uint64_t touched = first_ >= at + inner ? (first_ - at - inner) / stride + 1 : 0;
    const std::uint64_t touched_end =
        last_ > at ? std::min(count, (last_ - at - 1) / stride + 1) : 0;
    const std::uint64_t inside = first_ > at ? (first_ - at - 1) / stride + 1 : 0;
    const std::uint64_t inside_end =
        last_ >= at + inner ? std::min(count, (last_ - at - inner) / stride + 1) : 0;
    if (inside >= inside_end) return each(d, touched, touched_end, at, to);
    each(d, touched, inside, at, to);
    copy(d, inside, inside_end, at, to);
    each(d, inside_end, touched_end, at, to);
  }

 private:
  std::uint64_t count_of(std::uint32_t d) const {
    return d < map_.rank ? map_.dimensions[d].count : 1;
  }

  std::ptrdiff_t place(std::uint32_t d, std::uint64_t index, std::ptrdiff_t to) const {
    return to + static_cast<std::ptrdiff_t>(index) * map_.dimensions[d].destination_stride;
  }

  void each(std::uint32_t d, std::uint64_t begin, std::uint64_t end, std::uint64_t at,
            std::ptrdiff_t to) const {
    for (std::uint64_t i = begin; i < end; ++i) {
      descend(d + 1, at + i * map_.dimensions[d].source_stride, place(d, i, to));
    }
  }

  // Emits the indices [begin, end) of dimension `d`, with all inner dimensions.
  void copy(std::uint32_t d, std::uint64_t begin, std::uint64_t end, std::uint64_t at,
            std::ptrdiff_t to) const {
    whole_box box;
    if (d < map_.rank) {
      at += begin * map_.dimensions[d].source_stride;
      to = place(d, begin, to);
    }
    for (std::uint32_t k = d; k < map_.rank; ++k) {
      const std::uint64_t count = k == d ? end - begin : map_.dimensions[k].count;
      if (count == 1) continue;
      box.axes[box.rank++] = {count, static_cast<std::ptrdiff_t>(map_.dimensions[k].source_stride),
                              map_.dimensions[k].destination_stride};
    }
    visit_(box, at - first_, to);
  }

  const strided_map& map_;
  const std::uint64_t first_;
  const std::uint64_t last_;
  const Visit& visit_;
  std::uint64_t span_[strided_map::dimensions_max + 1] = {};
};

// All elements of the map whose stored bytes are in [first, first + bytes), each in one box.
template <class Visit>
void for_each_whole_box(const strided_map& map, std::uint64_t first, std::uint64_t bytes,
                        const Visit& visit) {
  if (map.empty()) return;
  range_walk<Visit>(map, first, bytes, visit).descend(0, 0, 0);
}

}  // namespace ringload::inline v0
