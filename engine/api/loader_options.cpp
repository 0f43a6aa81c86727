// SPDX-License-Identifier: Apache-2.0

// Chooses the defaults of loader_options for a device.

#include <algorithm>
#include <ringload/options.hpp>
#include <thread>

namespace ringload::inline v0 {

namespace {

constexpr std::uint32_t slots_of_gpu = 32;
constexpr std::uint32_t slots_max = 128;
constexpr std::uint32_t copy_threads_min = 3;
constexpr std::uint32_t copy_threads_of_gpu = 8;
constexpr std::uint32_t copy_threads_max = 32;

}  // namespace

loader_options chosen_options(const loader_options& limits, device_kind kind,
                              std::uint32_t devices) noexcept {
  loader_options chosen = limits;
  const std::uint64_t count = std::max(devices, 1U);
  const bool gpu = kind == device_kind::cuda;
  if (chosen.slots == 0) {
    chosen.slots =
        gpu ? static_cast<std::uint32_t>(std::min<std::uint64_t>(slots_of_gpu * count, slots_max))
            : 16;
  }
  if (chosen.copy_threads == 0) {
    const auto most = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(copy_threads_of_gpu * count, copy_threads_max));
    const std::uint32_t half = std::thread::hardware_concurrency() / 2;
    chosen.copy_threads = gpu ? std::clamp(half, copy_threads_min, most) : copy_threads_min;
  }
  return chosen;
}

}  // namespace ringload::inline v0
