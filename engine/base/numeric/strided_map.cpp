// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "base/numeric/strided_copy.hpp"

namespace ringload::inline v0 {

namespace {

void sort_and_join(std::vector<strided_dimension>& box) {
  std::erase_if(box, [](const strided_dimension& d) { return d.count == 1; });
  std::sort(box.begin(), box.end(), [](const strided_dimension& a, const strided_dimension& b) {
    if (a.source_stride != b.source_stride) {
      return a.source_stride > b.source_stride;
    }
    return magnitude(a.destination_stride) > magnitude(b.destination_stride);
  });
  std::vector<strided_dimension> joined;
  for (const strided_dimension& d : box) {
    if (!joined.empty()) {
      strided_dimension& outer = joined.back();
      const bool continues =
          outer.source_stride == d.source_stride * d.count &&
          outer.destination_stride == d.destination_stride * static_cast<std::int64_t>(d.count);
      if (continues) {
        outer = {outer.count * d.count, d.source_stride, d.destination_stride};
        continue;
      }
    }
    joined.push_back(d);
  }
  box = std::move(joined);
}

}  // namespace

coalesced_box coalesced(std::span<const strided_dimension> box, const element_form& element) {
  coalesced_box box_map;
  box_map.map.element_bytes = element.bytes;
  box_map.map.swap_bytes = element.swap_bytes;
  box_map.map.cast = element.cast;
  const bool is_empty =
      std::any_of(box.begin(), box.end(), [](const strided_dimension& d) { return d.count == 0; });
  if (is_empty) {
    box_map.map.dimensions[0] = {0, 0, 0};
    box_map.map.rank = 1;
    return box_map;
  }
  std::vector<strided_dimension> dimensions(box.begin(), box.end());
  if (!element.cast.needed()) {
    // Without a conversion, an element of the tensor may become several elements of the map.
    std::uint32_t unit = element.bytes;
    if (element.swap_bytes != 0) {
      unit = element.swap_bytes;
    } else if (!has_word_width(unit)) {
      unit = 1;
    }
    dimensions.push_back({element.bytes / unit, unit, unit});
    box_map.map.element_bytes = unit;
  }
  sort_and_join(dimensions);
  if (!element.cast.needed() && element.swap_bytes == 0) {
    const std::uint32_t unit = box_map.map.element_bytes;
    for (strided_dimension& d : dimensions) {
      if (d.source_stride != unit || d.destination_stride != static_cast<std::int64_t>(unit)) {
        continue;
      }
      d = {d.count * unit, 1, 1};
      box_map.map.element_bytes = 1;
      break;
    }
  }
  const std::size_t surplus =
      dimensions.size() - std::min<std::size_t>(dimensions.size(), strided_map::dimensions_max);
  box_map.outer.assign(dimensions.begin(),
                       dimensions.begin() + static_cast<std::ptrdiff_t>(surplus));
  std::copy(dimensions.begin() + static_cast<std::ptrdiff_t>(surplus), dimensions.end(),
            box_map.map.dimensions);
  box_map.map.rank = static_cast<std::uint32_t>(dimensions.size() - surplus);
  return box_map;
}

}  // namespace ringload::inline v0
