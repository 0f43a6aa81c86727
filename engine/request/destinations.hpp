// SPDX-License-Identifier: Apache-2.0
#pragma once

// The destinations of a plan: for each destination, its memory and the backend (host or GPU) that
// copies into this memory.
//
// If several devices need the same bytes, the first device copies the bytes from the slot (I/O
// buffer). Each other device copies from the slot or from the memory of an earlier device. The
// backend of the device chooses the source.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

class destinations {
 public:
  // Adds memory that a load has allocated. `copier` may be null if nothing is copied to the memory.
  void add_arena(std::byte* memory, backend* copier) { add(memory, copier, true); }
  // Adds memory of the caller. Other devices never copy from this memory, because these devices may
  // have no access.
  void add_callers(std::byte* memory, backend* copier) { add(memory, copier, false); }

  std::span<std::byte* const> memory() const noexcept { return memory_; }
  std::byte* operator[](std::uint32_t n) const noexcept { return memory_[n]; }
  backend& backend_of(std::uint32_t n) const noexcept { return *copiers_[n]; }
  // Returns the backend of all destinations. Returns null if the destinations have no backend or
  // several backends.
  backend* only() const noexcept { return has_several_ ? nullptr : only_; }

  // The copies that one backend carries out.
  struct share {
    backend* copier;
    std::span<const copy_op> copies;
    // The source in the memory of another device. If null, the source is the slot.
    const std::byte* source = nullptr;

    // Returns the copy operation `whole` with only the copies of this share.
    copy_operation operation_of(copy_operation whole) const noexcept {
      whole.copies = copies;
      whole.peer = source != nullptr;
      if (whole.peer) whole.slot = source;
      return whole;
    }
  };
  // Divides the copies by backend. Copies between devices are last, because these copies must start
  // after all other copies have ended. `order` receives the copies in the order of the shares. The
  // shares refer to the elements of `order`.
  std::vector<share> split_copies_by_backend(std::span<const copy_op> copies,
                                             std::vector<copy_op>& order) const;
  // Divides the copies by backend, without copies between devices. All shares may run at the same
  // time.
  std::vector<share> split_host_copies(std::span<const copy_op> copies,
                                       std::vector<copy_op>& order) const;

 private:
  void add(std::byte* memory, backend* copier, bool is_arena);
  const std::byte* bytes_on_peer(std::span<const share> before, const copy_op& copy,
                                 std::size_t copies) const;

  std::vector<std::byte*> memory_;
  std::vector<backend*> copiers_;
  std::vector<bool> is_arena_;
  backend* only_ = nullptr;  // The first backend that was added.
  bool has_several_ = false;
};

}  // namespace ringload::inline v0::detail
