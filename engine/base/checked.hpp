// SPDX-License-Identifier: Apache-2.0
#pragma once

// Arithmetic for sizes from a file. The checked functions return an empty optional on overflow.

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>

namespace ringload::inline v0 {

inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) noexcept {
  if (a > std::numeric_limits<std::uint64_t>::max() - b) return std::nullopt;
  return a + b;
}

inline std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// round_down() and round_up() round to a multiple of `unit`, which must be a power of two. Neither
// function checks for overflow. Example: with the unit 4,096, round_down(4,097) is 4,096 and
// round_up(4,097) is 8,192.
template <std::unsigned_integral T>
constexpr T round_down(T value, T unit) noexcept {
  return value & ~(unit - 1);
}

template <std::unsigned_integral T>
constexpr T round_up(T value, T unit) noexcept {
  return round_down(value + (unit - 1), unit);
}

}  // namespace ringload::inline v0
