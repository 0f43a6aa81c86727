// SPDX-License-Identifier: Apache-2.0

#include "io/slots.hpp"

#include <cerrno>
#include <utility>

#include "base/checked.hpp"

namespace ringload::inline v0 {

namespace {

fault not_populated(std::uint64_t bytes, const boost::system::error_code& failed) {
  return {failed, "slots", "populating " + grouped(bytes) + " bytes: " + failed.message()};
}

page_kind kind_asked(huge_pages pages) noexcept {
  return pages == huge_pages::none ? page_kind::small : page_kind::transparent;
}

}  // namespace

result<slots> slots::make(std::uint32_t count, std::uint64_t slot_bytes, huge_pages pages) {
  const std::uint64_t bytes = count * slot_bytes;
  std::string not_reserved_reason;
  if (pages == huge_pages::reserved) {
    if (slot_bytes % huge_page_bytes != 0) {
      not_reserved_reason = "slot_bytes is " + grouped(slot_bytes) + ", expected a multiple of " +
                            grouped(huge_page_bytes) + " for reserved huge pages";
    } else {
      auto region = mapping::make(bytes, page_kind::hugetlb);
      if (region) return slots(std::move(*region), slot_bytes, true, {});
      not_reserved_reason = message_of(region.error());
    }
  }
  auto region = mapping::make(bytes, kind_asked(pages));
  if (!region) return region.error().in("slots");
  return slots(std::move(*region), slot_bytes, false, std::move(not_reserved_reason));
}

result<std::string> slots::populate(std::uint32_t slot) const {
  const std::span<std::byte> memory = at(slot);
  auto failed = ringload::populate(memory);
  // Before Linux 5.14, ringload::populate() does nothing and returns no failure, so reserved pages
  // stay absent. The first access to a reserved page that the kernel cannot supply would raise
  // SIGBUS. Therefore absent pages count as refused.
  const bool refused = reserved_ && (failed || absent_bytes(memory) > 0);
  std::string refusal;
  if (refused) {
    refusal = "the kernel does not populate reserved pages";
    if (failed) refusal += ": " + failed.message() + "; a control group may forbid them";
    failed = map_again(memory, page_kind::transparent);
    if (!failed) failed = ringload::populate(memory);
  }
  if (failed) return not_populated(memory.size(), failed);
  return refusal;
}

}  // namespace ringload::inline v0
