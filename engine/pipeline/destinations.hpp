// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the bytes of a load go, by destination of its plan.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

class destinations {
 public:
  void add(std::byte* memory, bool on_host) {
    memory_.push_back(memory);
    on_host_.push_back(on_host);
    any_on_host_ = any_on_host_ || on_host;
  }

  std::span<std::byte* const> memory() const noexcept { return memory_; }
  std::byte* operator[](std::uint32_t n) const noexcept { return memory_[n]; }
  bool on_host(std::uint32_t n) const noexcept { return on_host_[n]; }
  bool any_on_host() const noexcept { return any_on_host_; }

  // Puts the copies in `order`: first those to the host, which the CPU makes whatever the loader's
  // device is, and then those to the device. Returns how many the first are.
  std::size_t host_first(std::span<const copy_op> copies, std::vector<copy_op>& order) const {
    order.assign(copies.begin(), copies.end());
    const auto rest =
        std::ranges::partition(order, [this](const copy_op& c) { return on_host(c.destination); });
    return order.size() - rest.size();
  }

 private:
  std::vector<std::byte*> memory_;
  std::vector<bool> on_host_;
  bool any_on_host_ = false;
};

}  // namespace ringload::inline v0::detail
