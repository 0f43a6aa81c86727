// SPDX-License-Identifier: Apache-2.0

#include "plan/mappable.hpp"

#include "base/fault.hpp"

namespace ringload::inline v0 {

std::string obstacle_to_mapping(const stored_item& item, std::uint64_t alignment) {
  if (item.block != no_index) return "the tensor is fused from several tensors";
  if (item.stream != no_index) return "its bytes are stored encoded";
  if (item.cast.needed()) return "the tensor is converted";
  if (!item.is_only_item) return "its elements are stored in several pieces";
  if (item.map != no_index) return "its elements are not contiguous in the file";
  if ((item.begin + item.shift) % alignment == 0) return {};
  return "it begins at byte " + grouped(item.begin) + " of the file, expected a multiple of " +
         grouped(alignment);
}

}  // namespace ringload::inline v0
