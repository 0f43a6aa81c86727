// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ringload::inline v0 {

// Parses a processor list of the kernel, such as "0-3,8\n". Returns an empty optional if the list
// is malformed, empty, or has a processor that cpu_set_t cannot represent.
inline std::optional<cpu_set_t> parse_processors(std::string_view list) noexcept {
  cpu_set_t out;
  CPU_ZERO(&out);
  while (!list.empty() && list.back() == '\n') list.remove_suffix(1);
  const char* next = list.data();
  const char* const end = next + list.size();
  for (;;) {
    unsigned first = 0;
    auto parsed = std::from_chars(next, end, first);
    if (parsed.ec != std::errc()) return std::nullopt;
    unsigned last = first;
    if (parsed.ptr != end && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, end, last);
      if (parsed.ec != std::errc()) return std::nullopt;
    }
    if (last < first || last >= CPU_SETSIZE) return std::nullopt;
    for (unsigned processor = first; processor <= last; ++processor) CPU_SET(processor, &out);
    if (parsed.ptr == end) return out;
    if (*parsed.ptr != ',') return std::nullopt;
    next = parsed.ptr + 1;
  }
}

// Returns the processors of `candidates` that the calling thread may use. The candidates are the
// processors near a device. Returns an empty optional if the result would have fewer than `threads`
// processors. In that case, some threads would share a near processor, and would be slower than on
// other processors.
inline std::optional<cpu_set_t> usable_processors(const cpu_set_t& candidates,
                                                  std::uint32_t threads) {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) return std::nullopt;
  CPU_AND(&usable, &usable, &candidates);
  if (static_cast<std::uint32_t>(CPU_COUNT(&usable)) < threads) return std::nullopt;
  return usable;
}

}  // namespace ringload::inline v0
