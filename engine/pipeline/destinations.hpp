// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the bytes of a load go, by destination of its plan, and what makes the copies there.

#include <algorithm>
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
  void add(std::byte* memory, backend* by) {
    memory_.push_back(memory);
    by_.push_back(by);
    if (only_ == nullptr) only_ = by;
    several_ = several_ || (by != nullptr && by != only_);
  }

  std::span<std::byte* const> memory() const noexcept { return memory_; }
  std::byte* operator[](std::uint32_t n) const noexcept { return memory_[n]; }
  backend& of(std::uint32_t n) const noexcept { return *by_[n]; }
  // What makes all copies; null where there are several.
  backend* only() const noexcept { return several_ ? nullptr : only_; }

  struct share {
    backend* by;
    std::span<const copy_op> copies;
  };
  // What each has to copy. The copies stand in `order`, those of one backend side by side.
  std::vector<share> shares(std::span<const copy_op> copies, std::vector<copy_op>& order) const {
    std::vector<share> all;
    order.assign(copies.begin(), copies.end());
    for (std::span<copy_op> left = order; !left.empty();) {
      backend* const by = by_[left.front().destination];
      const auto others =
          std::ranges::partition(left, [&](const copy_op& c) { return by_[c.destination] == by; });
      all.push_back({by, left.first(left.size() - others.size())});
      left = left.last(others.size());
    }
    return all;
  }

 private:
  std::vector<std::byte*> memory_;
  std::vector<backend*> by_;
  backend* only_ = nullptr;  // The first.
  bool several_ = false;
};

}  // namespace ringload::inline v0::detail
