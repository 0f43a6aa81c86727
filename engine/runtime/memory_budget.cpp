// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_budget.hpp"

#include <algorithm>

namespace ringload::inline v0::detail {

namespace {

constexpr std::uint64_t slots_part = 8;
constexpr std::uint32_t slots_min = 2;

}  // namespace

loader_options limit_slots(loader_options options,
                           std::optional<std::uint64_t> available) noexcept {
  if (!available || options.slot_bytes == 0) return options;
  const std::uint64_t slots_max = *available / slots_part / options.slot_bytes;
  if (slots_max < options.slots) {
    options.slots =
        std::min(options.slots, std::max(slots_min, static_cast<std::uint32_t>(slots_max)));
  }
  return options;
}

std::uint64_t limit_window(std::uint64_t window_bytes,
                           std::optional<std::uint64_t> available) noexcept {
  return available ? std::min(window_bytes, *available / 4 * 3) : window_bytes;
}

bool page_cache_has_room(std::uint64_t file_bytes, std::uint64_t arena_bytes,
                         std::optional<std::uint64_t> available) noexcept {
  return !available || (arena_bytes <= *available && file_bytes <= *available - arena_bytes);
}

}  // namespace ringload::inline v0::detail
