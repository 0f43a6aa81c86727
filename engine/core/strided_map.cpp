// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/strided_copy.hpp"

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
  coalesced_box made;
  made.map.element_bytes = element.bytes;
  made.map.swap_bytes = element.swap_bytes;
  made.map.as = element.as;
  const bool none =
      std::any_of(box.begin(), box.end(), [](const strided_dimension& d) { return d.count == 0; });
  if (none) {
    made.map.dimensions[0] = {0, 0, 0};
    made.map.rank = 1;
    return made;
  }
  std::vector<strided_dimension> left(box.begin(), box.end());
  if (!element.as.needed()) {
    // An element that need not stay whole is split into smaller ones.
    std::uint32_t unit = element.bytes;
    if (element.swap_bytes != 0) {
      unit = element.swap_bytes;
    } else if (!has_word_width(unit)) {
      unit = 1;
    }
    left.push_back({element.bytes / unit, unit, unit});
    made.map.element_bytes = unit;
  }
  sort_and_join(left);
  if (!element.as.needed() && element.swap_bytes == 0) {
    const std::uint32_t unit = made.map.element_bytes;
    for (strided_dimension& d : left) {
      if (d.source_stride != unit || d.destination_stride != static_cast<std::int64_t>(unit)) {
        continue;
      }
      d = {d.count * unit, 1, 1};
      made.map.element_bytes = 1;
      break;
    }
  }
  const std::size_t surplus =
      left.size() - std::min<std::size_t>(left.size(), strided_map::dimensions_max);
  made.outer.assign(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(surplus));
  std::copy(left.begin() + static_cast<std::ptrdiff_t>(surplus), left.end(), made.map.dimensions);
  made.map.rank = static_cast<std::uint32_t>(left.size() - surplus);
  return made;
}

}  // namespace ringload::inline v0
