// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which of a loader's devices each tensor goes to. Pure.

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
  bool everywhere = false;           // On all of them in place of that one;
  std::optional<std::uint32_t> dim;  // and if this says so, on each its block along this.
};

// By tensor of the catalog, of those for which `wanted(t)` is true; what is said of no tensor goes
// to the first device. `source` begins the place of faults that are no one tensor's.
result<std::vector<device_choice>> choose_devices(const catalog& from,
                                                  const detail::requests& requests,
                                                  const std::function<bool(std::uint32_t)>& wanted,
                                                  std::uint32_t devices, const std::string& source);

}  // namespace ringload::inline v0
