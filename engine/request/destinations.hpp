// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the bytes of a load go, by destination of its plan, and what makes the copies there.
//
// What goes to several devices is copied out of the slot to one of them, and from there to those
// that can reach its memory, where it is worth a copy of its own; to the others out of the slot
// too.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/backend.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

class destinations {
 public:
  // Null: nothing goes there.
  void add_arena(std::byte* memory, backend* by) { add(memory, by, true); }
  // Memory of the caller's, which other devices need not be able to reach.
  void add_callers(std::byte* memory, backend* by) { add(memory, by, false); }

  std::span<std::byte* const> memory() const noexcept { return memory_; }
  std::byte* operator[](std::uint32_t n) const noexcept { return memory_[n]; }
  backend& of(std::uint32_t n) const noexcept { return *by_[n]; }
  // What makes all copies; null where there are several.
  backend* only() const noexcept { return several_ ? nullptr : only_; }

  struct share {
    backend* by;
    std::span<const copy_op> copies;
    const std::byte* from = nullptr;  // In memory of another device; null: in the slot.

    // The part of `whole`, the copies of all, that is this one's.
    copy_operation of(copy_operation whole) const noexcept {
      whole.copies = copies;
      whole.peer = from != nullptr;
      if (whole.peer) whole.slot = from;
      return whole;
    }
  };
  // What each has to copy, the copies between devices behind all others: they may begin when those
  // have ended. The copies stand in `order`, those of one share side by side.
  std::vector<share> shares(std::span<const copy_op> copies, std::vector<copy_op>& order) const;

 private:
  void add(std::byte* memory, backend* by, bool is_arena);
  const std::byte* brought(std::span<const share> before, const copy_op& one,
                           std::size_t copies) const;

  std::vector<std::byte*> memory_;
  std::vector<backend*> by_;
  std::vector<bool> is_arena_;
  backend* only_ = nullptr;  // The first.
  bool several_ = false;
};

}  // namespace ringload::inline v0::detail
