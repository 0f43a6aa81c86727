// SPDX-License-Identifier: Apache-2.0
#pragma once

// One address range cut into equal slots, each without memory until it is populated. A worker owns
// one slot as long as it runs, so there is no pool to wait for and no reference count.

#include <cstdint>
#include <ringload/limits.hpp>
#include <span>
#include <string>

#include "core/mapping.hpp"

namespace ringload::inline v0 {

class slots {
 public:
  slots() = default;

  // Maps exactly `count * slot_bytes`, without populating any page. With huge_pages::reserved it
  // uses hugetlb pages, if enough are free and a slot is a whole number of them; else transparent
  // ones.
  static result<slots> make(std::uint32_t count, std::uint64_t slot_bytes, huge_pages pages);

  std::span<std::byte> at(std::uint32_t slot) const noexcept {
    return region_.span().subspan(slot * slot_bytes_, slot_bytes_);
  }
  std::span<std::byte> whole() const noexcept { return region_.span(); }
  std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }

  // Populates one slot. Where hugetlb pages are refused, as by a control group, the slot is put on
  // transparent pages, and the result says why. It is empty if the slot has the pages that were
  // asked for, or not_reserved() says why not. Any thread, but one at a time for each slot.
  result<std::string> populate(std::uint32_t slot) const;

  // Why the slots are not on reserved pages though that was asked for; else empty.
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
