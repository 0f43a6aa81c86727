// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ringload/options.hpp>
#include <thread>

namespace ringload::inline v0 {

loader_options chosen_options(const loader_options& within, device_kind kind) noexcept {
  loader_options chosen = within;
  const bool gpu = kind == device_kind::cuda;
  const std::uint32_t half = std::thread::hardware_concurrency() / 2;
  if (chosen.slots == 0) chosen.slots = gpu ? 32 : 16;
  if (chosen.copy_threads == 0) chosen.copy_threads = gpu ? std::clamp(half, 3U, 8U) : 3;
  return chosen;
}

}  // namespace ringload::inline v0
