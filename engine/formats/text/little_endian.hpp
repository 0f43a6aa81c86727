// SPDX-License-Identifier: Apache-2.0
#pragma once

// Numbers out of binary headers, which nearly all formats write with the lowest byte first.

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

namespace ringload::inline v0 {

// `from` has at least sizeof(T) bytes from `at` on.
template <std::unsigned_integral T>
T little_endian(std::span<const std::byte> from, std::size_t at = 0) noexcept {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(from[at + i]) << (8 * i)));
  }
  return value;
}

inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ringload::inline v0
