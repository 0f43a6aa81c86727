// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the device of each tensor. Pure.

#include <cstdint>
#include <functional>
#include <optional>
#include <ringload/catalog.hpp>
#include <ringload/selection.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

struct device_choice {
  std::uint32_t device = 0;
  bool everywhere = false;           // On all devices, not only on `device`.
  std::optional<std::uint32_t> dim;  // If set, each device has its shard along this dimension.
};

// Returns a choice for each tensor of the catalog; only choices with `wanted(t)` are set. A tensor
// without a rule goes to the first device. `source` is the place of faults that concern no single
// tensor.
result<std::vector<device_choice>> choose_devices(const catalog& from,
                                                  const detail::requests& requests,
                                                  const std::function<bool(std::uint32_t)>& wanted,
                                                  std::uint32_t devices, const std::string& source);

}  // namespace ringload::inline v0
