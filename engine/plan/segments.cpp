// SPDX-License-Identifier: Apache-2.0

#include "plan/segments.hpp"

#include <algorithm>

#include "plan/placement_rules.hpp"

namespace ringload::inline v0 {

namespace {

// Returns the ranges of stored bytes that a map needs. If the rows of the map are too far apart for
// one read, each row becomes a range. Otherwise all bytes become a single range. Returns an empty
// list if there would be more than `max` ranges.
std::vector<range> rows_of(const strided_map& map, std::uint64_t max) {
  // `rows` becomes the number of outer dimensions that are split into ranges. One range covers all
  // inner dimensions.
  std::uint64_t span = map.element_bytes;
  std::uint64_t row_bytes = span;
  std::uint32_t rows = map.rank;
  for (std::uint32_t d = map.rank; d > 0; --d) {
    const strided_dimension& dim = map.dimensions[d - 1];
    const bool interleaved = dim.source_stride < span;
    const bool is_near = rows == d && !interleaved && dim.source_stride - span < gap_bytes_max;
    span += (dim.count - 1) * dim.source_stride;
    if (!is_near && !interleaved) continue;
    rows = d - 1;
    row_bytes = span;
  }
  std::vector<range> ranges = {{0, row_bytes}};
  for (std::uint32_t d = rows; d > 0; --d) {
    const strided_dimension& dim = map.dimensions[d - 1];
    if (dim.count > max / ranges.size()) return {};
    const std::size_t inside = ranges.size();
    ranges.reserve(inside * dim.count);
    for (std::uint64_t i = 1; i < dim.count; ++i) {
      for (std::size_t k = 0; k < inside; ++k) {
        const std::uint64_t distance = i * dim.source_stride;
        ranges.push_back({ranges[k].begin + distance, ranges[k].end + distance});
      }
    }
  }
  return ranges;
}

}  // namespace

result<file_segments> segments_of(std::uint32_t first, std::uint32_t last,
                                  std::span<const stored_item> items, const plan& new_plan,
                                  std::uint64_t slot_bytes, std::uint64_t& rows_left,
                                  std::uint32_t* failed_tensor) {
  file_segments output;
  std::vector<segment>& segments = output.segments;
  for (std::uint32_t i = first; i < last; ++i) {
    const stored_item& item = items[i];
    if (item.unstaged || reused_item(item, items) != no_index || item.begin == item.end) continue;
    if (item.stream != no_index) {
      if (!item.first_of_stream) continue;
      const std::uint32_t stream = new_plan.parts[i].stream;
      if (item.begin % block_bytes + (item.end - item.begin) > slot_bytes) {
        output.chains.push_back(stream);
      } else {
        segments.push_back({item.begin, item.end, stream, true});
      }
    } else if (item.hole_end > 0) {
      if (item.begin < item.hole_begin) segments.push_back({item.begin, item.hole_begin, i, false});
      if (item.hole_end < item.end) segments.push_back({item.hole_end, item.end, i, false});
    } else if (item.map == no_index) {
      segments.push_back({item.begin, item.end, i, false});
    } else {
      const std::vector<range> rows = rows_of(new_plan.maps[item.map], rows_left);
      if (rows.empty()) {
        if (failed_tensor) *failed_tensor = item.tensor;
        return fault{errc::memory_exceeded, "",
                     "the slice has more than " + grouped(rows_max) +
                         " separate rows in the file, the limit for one load"};
      }
      rows_left -= rows.size() - 1;
      for (const range& row : rows) {
        segments.push_back({item.begin + row.begin, item.begin + row.end, i, false});
      }
    }
  }
  if (!std::ranges::is_sorted(segments, {}, &segment::begin)) {
    std::ranges::sort(segments, {}, &segment::begin);
  }
  return output;
}

}  // namespace ringload::inline v0
