// SPDX-License-Identifier: Apache-2.0
#pragma once

// One region of memory cut into equal slots. A worker owns a slot for as long as it runs, so nobody
// waits for one and nothing counts them.

#include <cstdint>
#include <span>

#include "core/mapping.hpp"

namespace ringload::inline v0 {

class slots {
 public:
  slots() = default;

  // Populated memory: on hugetlb pages if enough of them are reserved, else on transparent ones.
  static result<slots> make(std::uint32_t count, std::uint64_t slot_bytes);

  std::span<std::byte> at(std::uint32_t slot) const noexcept {
    return region_.span().subspan(slot * slot_bytes_, slot_bytes_);
  }
  std::span<std::byte> whole() const noexcept { return region_.span(); }
  page_kind kind() const { return region_.kind(); }

 private:
  slots(mapping region, std::uint64_t slot_bytes)
      : region_(std::move(region)), slot_bytes_(slot_bytes) {}

  mapping region_;
  std::uint64_t slot_bytes_ = 0;
};

}  // namespace ringload::inline v0
