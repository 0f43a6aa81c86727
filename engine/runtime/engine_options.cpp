// SPDX-License-Identifier: Apache-2.0

#include "runtime/engine_options.hpp"

#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "device/available.hpp"
#include "runtime/memory_budget.hpp"

namespace ringload::inline v0::detail {

result<void> check_options(const loader_options& options) {
  const auto wrong = [](const char* option, std::uint64_t value, const char* expected) {
    return fault{errc::invalid_options, std::string("loader_options::") + option,
                 "the value is " + grouped(value) + ", expected " + expected};
  };
  if (options.slots < 1 || options.slots > 1024)
    return wrong("slots", options.slots, "1 to 1,024, or 0 for the default");
  if (options.slot_bytes < 64 * 1024 || options.slot_bytes > 64 * 1024 * 1024 ||
      !std::has_single_bit(options.slot_bytes)) {
    return wrong("slot_bytes", options.slot_bytes, "a power of two from 64 KiB to 64 MiB");
  }
  if (options.copy_threads < 1 || options.copy_threads > 64)
    return wrong("copy_threads", options.copy_threads, "1 to 64, or 0 for the default");
  if (options.reader_threads < 1 || options.reader_threads > 64)
    return wrong("reader_threads", options.reader_threads, "1 to 64");
  if (options.stop_time_max.count() < 0) {
    return fault{errc::invalid_options, "loader_options::stop_time_max", "the time is negative"};
  }
  return {};
}

loader_options options_for(const loader_options& options, const std::vector<device>& targets) {
  std::set<int> gpus;
  for (const device& target : targets) {
    if (target.kind() == device_kind::cuda) gpus.insert(target.index());
  }
  const loader_options chosen =
      chosen_options(options, gpus.empty() ? device_kind::host : device_kind::cuda,
                     static_cast<std::uint32_t>(gpus.size()));
  // Available memory reduces the default number of slots. A number that the caller set is kept.
  return options.slots == 0 ? limit_slots(chosen, available_bytes()) : chosen;
}

std::uint32_t slots_max_for(const loader_options& requested, const loader_options& chosen,
                            const std::vector<device>& targets) {
  constexpr std::uint32_t growth_max = 4;
  const bool on_host = std::ranges::all_of(
      targets, [](const device& target) { return target.kind() == device_kind::host; });
  const bool may_grow = requested.slots == 0 && requested.bytes_in_flight == 0 && on_host &&
                        requested.huge_pages != huge_pages::reserved;
  if (!may_grow) return chosen.slots;
  loader_options grown = chosen;
  grown.slots *= growth_max;
  return std::max(chosen.slots, limit_slots(grown, available_bytes()).slots);
}

std::uint32_t spare_slots_for(const loader_options& chosen, std::uint32_t slots_max) {
  constexpr std::uint32_t slots_per_spare = 8;
  const bool has_spare = chosen.huge_pages != huge_pages::reserved;
  return has_spare ? (slots_max + slots_per_spare - 1) / slots_per_spare : 0;
}

}  // namespace ringload::inline v0::detail
