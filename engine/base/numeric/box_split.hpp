// SPDX-License-Identifier: Apache-2.0
#pragma once

// Splits the elements in a range of stored bytes into boxes. A strided map describes the stored
// bytes. Every box is completely in the range, so callers copy boxes without checking the range.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/numeric/strided_map.hpp"

namespace ringload::inline v0 {

// A dimension of a box in memory. Strides are in bytes.
struct axis {
  std::size_t count;
  std::ptrdiff_t source_stride;
  std::ptrdiff_t destination_stride;
};

// Every dimension of the box has more than one element.
struct whole_box {
  axis axes[strided_map::dimensions_max];
  unsigned rank = 0;

  axis take(unsigned index) {
    const axis taken = axes[index];
    std::copy(axes + index + 1, axes + rank, axes + index);
    --rank;
    return taken;
  }
};

// Calls `visit` for each box. The three arguments are the box, the distance of the box's first
// element from the start of the range, and the destination offset of this element.
template <class Visit>
class range_walk {
 public:
  range_walk(const strided_map& map, std::uint64_t first, std::uint64_t bytes, const Visit& visit)
      : map_(map), first_(first), last_(first + bytes), visit_(visit) {
    span_[map.rank] = map.element_bytes;
    for (std::uint32_t d = map.rank; d > 0; --d) {
      const strided_dimension& dim = map.dimensions[d - 1];
      span_[d - 1] = span_[d] + (dim.count - 1) * dim.source_stride;
    }
  }

  // Visits the sub-box of the dimensions [d, rank). `source` is the stored offset of the first
  // element, and `to` is its destination offset. Dimensions are sorted by descending source stride.
  // Therefore usually only two indices of a dimension are partly in the range: the first and the
  // last index that the range touches.
  void descend(std::uint32_t d, std::uint64_t source, std::ptrdiff_t to) const {
    if (source >= first_ && source + span_[d] <= last_) return copy(d, 0, count_of(d), source, to);
    if (d == map_.rank || source >= last_ || source + span_[d] <= first_) return;
    const std::uint64_t count = map_.dimensions[d].count;
    const std::uint64_t stride = map_.dimensions[d].source_stride;
    if (stride == 0) return visit_indices(d, 0, count, source, to);
    const std::uint64_t inner = span_[d + 1];
    const std::uint64_t touched =
        first_ >= source + inner ? (first_ - source - inner) / stride + 1 : 0;
    const std::uint64_t touched_end =
        last_ > source ? std::min(count, (last_ - source - 1) / stride + 1) : 0;
    const std::uint64_t inside = first_ > source ? (first_ - source - 1) / stride + 1 : 0;
    const std::uint64_t inside_end =
        last_ >= source + inner ? std::min(count, (last_ - source - inner) / stride + 1) : 0;
    if (inside >= inside_end) return visit_indices(d, touched, touched_end, source, to);
    visit_indices(d, touched, inside, source, to);
    copy(d, inside, inside_end, source, to);
    visit_indices(d, inside_end, touched_end, source, to);
  }

 private:
  std::uint64_t count_of(std::uint32_t d) const {
    return d < map_.rank ? map_.dimensions[d].count : 1;
  }

  std::ptrdiff_t place(std::uint32_t d, std::uint64_t index, std::ptrdiff_t to) const {
    return to + static_cast<std::ptrdiff_t>(index) * map_.dimensions[d].destination_stride;
  }

  void visit_indices(std::uint32_t d, std::uint64_t begin, std::uint64_t end, std::uint64_t source,
                     std::ptrdiff_t to) const {
    for (std::uint64_t i = begin; i < end; ++i) {
      descend(d + 1, source + i * map_.dimensions[d].source_stride, place(d, i, to));
    }
  }

  // Visits the indices [begin, end) of dimension `d`, and all inner dimensions, as one box.
  void copy(std::uint32_t d, std::uint64_t begin, std::uint64_t end, std::uint64_t source,
            std::ptrdiff_t to) const {
    whole_box box;
    if (d < map_.rank) {
      source += begin * map_.dimensions[d].source_stride;
      to = place(d, begin, to);
    }
    for (std::uint32_t k = d; k < map_.rank; ++k) {
      const std::uint64_t count = k == d ? end - begin : map_.dimensions[k].count;
      if (count == 1) continue;
      box.axes[box.rank++] = {count, static_cast<std::ptrdiff_t>(map_.dimensions[k].source_stride),
                              map_.dimensions[k].destination_stride};
    }
    visit_(box, source - first_, to);
  }

  const strided_map& map_;
  const std::uint64_t first_;
  const std::uint64_t last_;
  const Visit& visit_;
  std::uint64_t span_[strided_map::dimensions_max + 1] = {};
};

// Splits the elements whose stored bytes are in [first, first + bytes) into boxes. Each element is
// in exactly one box. Calls `visit` for each box: see range_walk.
template <class Visit>
void for_each_whole_box(const strided_map& map, std::uint64_t first, std::uint64_t bytes,
                        const Visit& visit) {
  if (map.empty()) return;
  range_walk<Visit>(map, first, bytes, visit).descend(0, 0, 0);
}

}  // namespace ringload::inline v0
