// SPDX-License-Identifier: Apache-2.0

#include "formats/pytorch/dcp_boxes.hpp"

#include <algorithm>
#include <string>

#include "base/checked.hpp"
#include "formats/shape.hpp"
#include "formats/text/malformed.hpp"

namespace ringload::inline v0 {

namespace {

std::string box_text(const piece& box) {
  return "the chunk at " + shape_text(box.origin) + " of size " + shape_text(box.extent);
}

result<void> check_inside(const piece& box, std::span<const std::uint64_t> shape) {
  bool is_inside = box.origin.size() == shape.size() && box.extent.size() == shape.size();
  for (std::size_t d = 0; is_inside && d < shape.size(); ++d) {
    is_inside = box.origin[d] <= shape[d] && box.extent[d] <= shape[d] - box.origin[d];
  }
  if (is_inside) return {};
  return malformed(box_text(box) + " extends past the shape " + shape_text(shape));
}

bool overlap(const piece& a, const piece& b) {
  for (std::size_t d = 0; d < a.origin.size(); ++d) {
    if (a.origin[d] >= b.origin[d] + b.extent[d] || b.origin[d] >= a.origin[d] + a.extent[d]) {
      return false;
    }
  }
  return true;
}

// Returns a fault if two boxes overlap. `boxes` must be sorted by origin. Each box is compared only
// with boxes that begin before its end in the first dimension.
result<void> check_disjoint(std::span<const piece> boxes) {
  std::uint64_t compared = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const piece& box = boxes[i];
    for (std::size_t k = i + 1; k < boxes.size(); ++k) {
      if (!box.origin.empty() && boxes[k].origin[0] >= box.origin[0] + box.extent[0]) break;
      if (++compared > dcp_compared_max) {
        return fault{errc::header_too_large, "", "the tensor has too many chunks to compare"};
      }
      if (overlap(box, boxes[k])) {
        return malformed(box_text(box) + " overlaps " + box_text(boxes[k]));
      }
    }
  }
  return {};
}

}  // namespace

result<void> check_dcp_boxes(std::vector<piece>& boxes, std::span<const std::uint64_t> shape) {
  for (const piece& box : boxes) {
    if (auto status = check_inside(box, shape); !status) return status.error();
  }
  std::erase_if(boxes, [](const piece& box) {
    return std::ranges::find(box.extent, std::uint64_t{0}) != box.extent.end();
  });
  std::ranges::stable_sort(boxes, {}, &piece::origin);
  const auto is_duplicate = [](const piece& a, const piece& b) {
    return a.origin == b.origin && a.extent == b.extent;
  };
  const auto duplicates = std::ranges::unique(boxes, is_duplicate);
  boxes.erase(duplicates.begin(), duplicates.end());
  if (auto status = check_disjoint(boxes); !status) return status.error();
  // The boxes are disjoint and inside the shape, so the sum is at most the number of elements.
  std::uint64_t covered = 0;
  for (const piece& box : boxes) covered += *element_count(box.extent);
  const std::uint64_t element_total = *element_count(shape);
  if (covered == element_total) return {};
  return fault{
      errc::missing_tensor, "",
      "its chunks cover " + grouped(covered) + " of its " + grouped(element_total) + " elements"};
}

}  // namespace ringload::inline v0
