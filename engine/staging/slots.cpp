// SPDX-License-Identifier: Apache-2.0
#include "staging/slots.hpp"

namespace ringload::inline v0 {

result<slots> slots::make(std::uint32_t count, std::uint64_t slot_bytes) {
  const std::uint64_t bytes = count * slot_bytes;
  auto region = mapping::make(bytes, page_kind::hugetlb);
  if (!region) region = mapping::make(bytes, page_kind::transparent);
  if (!region) return region.error().in("slots");
  if (auto failed = populate(region->span())) return fault{failed, "slots"};
  return slots(std::move(*region), slot_bytes);
}

}  // namespace ringload::inline v0
