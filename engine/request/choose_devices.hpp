// SPDX-License-Identifier: Apache-2.0
#pragma once

// Chooses the device of each selected tensor. Pure functions.

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
  // True if every device has the tensor or a shard of the tensor. If true, `device` is not used.
  bool on_all_devices = false;
  // If set, each device has one shard of the tensor in this dimension.
  std::optional<std::uint32_t> dim;
};

// Returns one element per tensor of the catalog. If `is_chosen(t)` returns false, element t has no
// meaning. A tensor that matches no rule is placed on the first device. `source` is the place of an
// error that does not belong to one tensor.
result<std::vector<device_choice>> choose_devices(
    const catalog& from, const detail::requests& requests,
    const std::function<bool(std::uint32_t)>& is_chosen, std::uint32_t devices,
    const std::string& source);

}  // namespace ringload::inline v0
