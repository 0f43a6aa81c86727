// SPDX-License-Identifier: Apache-2.0
#include "plan/mappable.hpp"

#include "base/fault.hpp"

namespace ringload::inline v0 {

std::string obstacle_to_view(const stored_item& item, std::uint64_t alignment) {
  if (item.block != no_index) return "it is put together from several tensors";
  if (item.stream != no_index) return "its bytes are not stored as they are";
  if (item.cast.needed()) return "it is converted";
  if (!item.only) return "its elements are stored in several pieces";
  if (item.map != no_index) return "its elements are not stored side by side and in order";
  if ((item.begin + item.shift) % alignment == 0) return {};
  return "it begins at byte " + grouped(item.begin) + " of the file, and its elements must be at " +
         "multiples of " + grouped(alignment);
}

}  // namespace ringload::inline v0
