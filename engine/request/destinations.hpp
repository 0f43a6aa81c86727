// SPDX-License-Identifier: Apache-2.0
#pragma once

// The memory of each destination of a plan, and the backend (host or GPU) that copies into it.
//
// If the same bytes are needed on several devices, the first device copies them from the slot (I/O
// buffer). For each other device, the backend of this device chooses the source: the memory of an
// earlier device, or the slot.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

class destinations {
 public:
  // Adds memory of a load. `copier` may be null if nothing is copied to the memory.
  void add_arena(std::byte* memory, backend* copier) { add(memory, copier, true); }
  // Adds memory of the caller. Other devices do not copy from this memory, because they may have no
  // access.
  void add_callers(std::byte* memory, backend* copier) { add(memory, copier, false); }

  std::span<std::byte* const> memory() const noexcept { return memory_; }
  std::byte* operator[](std::uint32_t n) const noexcept { return memory_[n]; }
  backend& backend_of(std::uint32_t n) const noexcept { return *copiers_[n]; }
  // Returns the backend of all destinations. Returns null if there is no backend or several.
  backend* only() const noexcept { return several_ ? nullptr : only_; }

  // The copies that one backend carries out.
  struct share {
    backend* by;
    std::span<const copy_op> copies;
    // Source in the memory of another device. If null, the source is the slot.
    const std::byte* from = nullptr;

    // Returns the copy operation `whole` with only the copies of this share.
    copy_operation operation_of(copy_operation whole) const noexcept {
      whole.copies = copies;
      whole.peer = from != nullptr;
      if (whole.peer) whole.slot = from;
      return whole;
    }
  };
  // Divides the copies by backend. Copies between devices are last, because they must start after
  // all other copies have ended. `order` receives the copies in the order of the shares, and the
  // shares refer to `order`.
  std::vector<share> shares(std::span<const copy_op> copies, std::vector<copy_op>& order) const;
  // Divides the copies by backend, without copies between devices. All shares may run at the same
  // time.
  std::vector<share> host_shares(std::span<const copy_op> copies,
                                 std::vector<copy_op>& order) const;

 private:
  void add(std::byte* memory, backend* copier, bool is_arena);
  const std::byte* brought(std::span<const share> before, const copy_op& copy,
                           std::size_t copies) const;

  std::vector<std::byte*> memory_;
  std::vector<backend*> copiers_;
  std::vector<bool> is_arena_;
  backend* only_ = nullptr;  // The first backend that was added.
  bool several_ = false;
};

}  // namespace ringload::inline v0::detail
