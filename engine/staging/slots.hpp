// SPDX-License-Identifier: Apache-2.0
#pragma once

// One region of addresses cut into equal slots, each of which gets its memory when it is populated.
// A worker owns a slot for as long as it runs, so nobody waits for one and nothing counts them.

#include <cstdint>
#include <ringload/limits.hpp>
#include <span>
#include <string>

#include "core/mapping.hpp"

namespace ringload::inline v0 {

class slots {
 public:
  slots() = default;

  // Maps `count * slot_bytes` and not a byte more; no page of it is there yet. With
  // huge_pages::reserved the kernel sets as many reserved pages aside, if enough are free and a
  // slot is made of whole ones; else the slots lie on transparent ones.
  static result<slots> make(std::uint32_t count, std::uint64_t slot_bytes, huge_pages pages);

  std::span<std::byte> at(std::uint32_t slot) const noexcept {
    return region_.span().subspan(slot * slot_bytes_, slot_bytes_);
  }
  std::span<std::byte> whole() const noexcept { return region_.span(); }
  std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }

  // Makes the pages of one slot present. Where the kernel refuses reserved pages that it has set
  // aside, as a control group without a right to them makes it, the slot goes on transparent ones,
  // and the result says why. It is empty where the slot is on the pages that were asked for, or
  // make() has said why not. Any thread, but only one for each slot.
  result<std::string> populate(std::uint32_t slot) const;

  // Why the slots cannot be on reserved pages, which were asked for; else empty.
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
