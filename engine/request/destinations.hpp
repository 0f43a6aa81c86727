// SPDX-License-Identifier: Apache-2.0
#pragma once

// The memory of each destination of a plan, and the backends that copy into it.
//
// Bytes for several devices are copied from the slot to one device. Other devices copy from that
// device if they can reach its memory and prefer a copy between devices. All remaining devices copy
// from the slot.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

class destinations {
 public:
  // Null if nothing is copied to the destination.
  void add_arena(std::byte* memory, backend* copier) { add(memory, copier, true); }
  // Caller memory: other devices may be unable to reach it.
  void add_callers(std::byte* memory, backend* copier) { add(memory, copier, false); }

  std::span<std::byte* const> memory() const noexcept { return memory_; }
  std::byte* operator[](std::uint32_t n) const noexcept { return memory_[n]; }
  backend& of(std::uint32_t n) const noexcept { return *copiers_[n]; }
  // The backend of all copies, or null if there are several backends.
  backend* only() const noexcept { return several_ ? nullptr : only_; }

  struct share {
    backend* by;
    std::span<const copy_op> copies;
    const std::byte* from = nullptr;  // Source in another device's memory; null: the slot.

    // Restricts `whole`, the operation with all copies, to the copies of the share.
    copy_operation of(copy_operation whole) const noexcept {
      whole.copies = copies;
      whole.peer = from != nullptr;
      if (whole.peer) whole.slot = from;
      return whole;
    }
  };
  // Groups the copies by backend. Copies between devices come last: they must begin after all other
  // copies end. `order` receives the copies, with the copies of one share side by side.
  std::vector<share> shares(std::span<const copy_op> copies, std::vector<copy_op>& order) const;

 private:
  void add(std::byte* memory, backend* copier, bool is_arena);
  const std::byte* brought(std::span<const share> before, const copy_op& copy,
                           std::size_t copies) const;

  std::vector<std::byte*> memory_;
  std::vector<backend*> copiers_;
  std::vector<bool> is_arena_;
  backend* only_ = nullptr;  // The first backend.
  bool several_ = false;
};

}  // namespace ringload::inline v0::detail
