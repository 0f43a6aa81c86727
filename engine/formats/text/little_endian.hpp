// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads little-endian numbers of binary headers.

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

namespace ringload::inline v0 {

// `bytes` must have at least sizeof(T) bytes after `offset`.
template <std::unsigned_integral T>
T little_endian(std::span<const std::byte> bytes, std::size_t offset = 0) noexcept {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value =
        static_cast<T>(value | static_cast<T>(std::to_integer<T>(bytes[offset + i]) << (8 * i)));
  }
  return value;
}

inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ringload::inline v0
