// SPDX-License-Identifier: Apache-2.0
#pragma once

// The expected result of a conversion between any two element kinds. Computed in long double, which
// represents every f64 and every 64-bit integer exactly, without code of the engine.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ringload/dtype.hpp>
#include <string>
#include <string_view>

namespace ringload::testing {

static_assert(std::numeric_limits<long double>::digits >= 64);

inline constexpr dtype element_kinds[] = {
    dtype::boolean, dtype::i8,  dtype::u8,  dtype::i16,       dtype::u16,
    dtype::i32,     dtype::u32, dtype::i64, dtype::u64,       dtype::f16,
    dtype::bf16,    dtype::f32, dtype::f64, dtype::f8_e4m3fn, dtype::f8_e5m2};

struct element_layout {
  bool is_float = false;
  bool is_signed = true;
  int fraction_bits = 0;
  int bias = 0;
  std::uint64_t nan = 0;
};

inline element_layout layout_of(dtype type) {
  switch (type) {
    case dtype::f64: return {true, true, 52, 1023, 0x7FF8000000000000U};
    case dtype::f32: return {true, true, 23, 127, 0x7FC00000U};
    case dtype::f16: return {true, true, 10, 15, 0x7E00U};
    case dtype::bf16: return {true, true, 7, 127, 0x7FC0U};
    case dtype::f8_e4m3fn: return {true, true, 3, 7, 0x7FU};
    case dtype::f8_e5m2: return {true, true, 2, 15, 0x7FU};
    case dtype::i8:
    case dtype::i16:
    case dtype::i32:
    case dtype::i64: return {};
    default: return {false, false, 0, 0, 0};
  }
}

// The sign of a NaN is that of the long double.
inline long double number_of(std::uint64_t word, dtype type) {
  const element_layout as = layout_of(type);
  const int width = static_cast<int>(bits(type));
  if (type == dtype::boolean) return word != 0 ? 1 : 0;
  const std::uint64_t sign = as.is_signed ? std::uint64_t{1} << (width - 1) : 0;
  const std::uint64_t rest = word & ~sign;
  const bool negative = (word & sign) != 0;
  if (!as.is_float) {
    return static_cast<long double>(rest) - (negative ? std::ldexp(1.0L, width - 1) : 0.0L);
  }
  const int exponent = static_cast<int>(rest >> as.fraction_bits);
  const std::uint64_t fraction = rest & ((std::uint64_t{1} << as.fraction_bits) - 1);
  const std::uint64_t one = exponent == 0 ? 0 : std::uint64_t{1} << as.fraction_bits;
  long double made = std::ldexp(static_cast<long double>(one | fraction),
                                std::max(exponent, 1) - as.bias - as.fraction_bits);
  if (type == dtype::f8_e4m3fn) {
    if (rest == 0x7F) made = NAN;
  } else if (exponent == 2 * as.bias + 1) {
    made = fraction != 0 ? NAN : INFINITY;
  }
  return std::copysign(made, negative ? -1.0L : 1.0L);
}

inline std::uint64_t integer_word(long double number, dtype type) {
  const int width = static_cast<int>(bits(type));
  const bool is_signed = layout_of(type).is_signed;
  if (std::isnan(number)) return 0;
  const long double past = std::ldexp(1.0L, is_signed ? width - 1 : width);
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - width);
  const std::uint64_t top = is_signed ? mask >> 1U : mask;
  const long double whole = std::trunc(number);
  if (whole >= past) return top;
  if (whole < (is_signed ? -past : 0.0L)) return is_signed ? top + 1 : 0;
  const auto magnitude = static_cast<std::uint64_t>(std::fabs(whole));
  return (whole < 0 ? 0 - magnitude : magnitude) & mask;
}

inline std::uint64_t float_word(long double number, dtype type) {
  const element_layout as = layout_of(type);
  const std::uint64_t sign = std::signbit(number) ? std::uint64_t{1} << (bits(type) - 1) : 0;
  const long double size = std::fabs(number);
  if (std::isnan(size)) return sign | as.nan;
  // f8_e4m3fn has no infinity, but one NaN after its largest number.
  const bool no_infinity = type == dtype::f8_e4m3fn;
  const std::uint64_t infinity =
      no_infinity ? as.nan - 1 : static_cast<std::uint64_t>(2 * as.bias + 1) << as.fraction_bits;
  if (std::isinf(size)) return sign | infinity;
  if (size == 0) return sign;
  // In units of the last place. A carry from the fraction increments the exponent.
  const int exponent = std::max(std::ilogb(size), 1 - as.bias);
  const auto units =
      static_cast<std::uint64_t>(std::nearbyint(std::ldexp(size, as.fraction_bits - exponent)));
  const std::uint64_t made =
      (static_cast<std::uint64_t>(exponent + as.bias - 1) << as.fraction_bits) + units;
  return sign | std::min(made, infinity);
}

inline std::uint64_t word_of(long double number, dtype type) {
  if (type == dtype::boolean) return number != 0 ? 1 : 0;
  return layout_of(type).is_float ? float_word(number, type) : integer_word(number, type);
}

inline std::uint64_t element_reference(std::uint64_t word, dtype from, dtype to) {
  return word_of(number_of(word, from), to);
}

}  // namespace ringload::testing
