// SPDX-License-Identifier: Apache-2.0
#pragma once

// One address range divided into equal slots, whose memory is populated slot by slot. A worker owns
// one slot while it runs, so there is no pool to wait for and no reference count.

#include <cstdint>
#include <ringload/options.hpp>
#include <span>
#include <string>

#include "base/mapping.hpp"

namespace ringload::inline v0 {

class slots {
 public:
  slots() = default;

  // Maps exactly `count * slot_bytes` without populating a page. huge_pages::reserved uses hugetlb
  // pages if enough are free and the slot size is a multiple of them; otherwise transparent huge
  // pages.
  static result<slots> make(std::uint32_t count, std::uint64_t slot_bytes, huge_pages pages);

  std::span<std::byte> at(std::uint32_t slot) const noexcept {
    return region_.span().subspan(slot * slot_bytes_, slot_bytes_);
  }
  std::span<std::byte> whole() const noexcept { return region_.span(); }
  std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }

  // Populates one slot. If hugetlb pages are refused, for example by a control group, the slot is
  // moved to transparent huge pages and the result says why. The result is empty if the slot has
  // the requested pages or not_reserved() explains the difference. Different slots may be populated
  // in parallel.
  result<std::string> populate(std::uint32_t slot) const;

  // Why the slots are not on reserved pages although these were requested; otherwise empty.
  const std::string& not_reserved() const noexcept { return not_reserved_; }

 private:
  slots(mapping region, std::uint64_t slot_bytes, bool reserved, std::string not_reserved)
      : region_(std::move(region)),
        slot_bytes_(slot_bytes),
        reserved_(reserved),
        not_reserved_(std::move(not_reserved)) {}

  mapping region_;
  std::uint64_t slot_bytes_ = 0;
  bool reserved_ = false;  // The region was mapped on reserved pages.
  std::string not_reserved_;
};

}  // namespace ringload::inline v0
