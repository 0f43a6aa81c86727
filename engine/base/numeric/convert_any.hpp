// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts elements of any kind to any other kind, except quantised blocks: widens to f64, then
// narrows to the target with one rounding. Produces the same bits in any rounding mode.
//
// An f64 can represent the elements of all kinds exactly, except 64-bit integers. A 64-bit integer
// that does not fit is rounded to odd: if any dropped bit is set, the last kept bit is set. If the
// result is rounded again, to at most 24 significant bits, the value is the same as after a single
// rounding. Conversions from i64 or u64 to i64, u64 or f64 use integer arithmetic: see
// converted_integer().

#include <type_traits>

#include "base/numeric/convert_float.hpp"

namespace ringload::inline v0 {

namespace f64_bits {

inline std::uint64_t bits_of(double from) noexcept {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &from, sizeof bits);
  return bits;
}

inline double number(std::uint64_t bits) noexcept {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Converts f32 bits exactly. See f32_bits::subtract_implicit_one.
inline double of_f32(std::uint32_t from) noexcept {
  constexpr std::uint64_t rebias = std::uint64_t{f64_fields::bias - f32_fields::bias} << 52U;
  const std::uint64_t unsigned_word = from & 0x7FFFFFFFU;
  const bool subnormal = unsigned_word < 0x00800000U;
  const std::uint64_t moved =
      (unsigned_word << 29U) + rebias + (subnormal ? std::uint64_t{1} << 52U : 0U);
  const std::uint64_t less = subnormal ? rebias + (std::uint64_t{1} << 52U) : 0U;
  const std::uint64_t finite = bits_of(number(moved) - number(less)) & 0x7FFFFFFFFFFFFFFFU;
  const std::uint64_t special =
      unsigned_word > f32_bits::infinity ? f64_fields::nan : f64_fields::too_large;
  const std::uint64_t sign = std::uint64_t{from >> 31U} << 63U;
  return number(sign | (unsigned_word >= f32_bits::infinity ? special : finite));
}

// Removes the payload of a NaN, as conversions to the other formats do.
inline double plain(double from) noexcept {
  const std::uint64_t bits = bits_of(from);
  const bool nan = (bits & 0x7FFFFFFFFFFFFFFFU) > f64_fields::too_large;
  return number(nan ? (bits & 0x8000000000000000U) | f64_fields::nan : bits);
}

// Converts an integer to f64. An f64 must be able to represent the integer exactly. Writes the two
// halves of the integer into the fractions of 2^52 and 2^84, then subtracts 2^52 and 2^84. A cast
// would be wrong: in round-down mode, the cast converts 0 to -0, and compilers remove code that
// clears the sign.
inline double exact(std::uint64_t from) noexcept {
  constexpr std::uint64_t two_to_52 = 0x4330000000000000U;
  constexpr std::uint64_t two_to_84 = 0x4530000000000000U;
  const double low = number(two_to_52 | (from & 0xFFFFFFFFU)) - number(two_to_52);
  const double high = number(two_to_84 | from >> 32U) - number(two_to_84);
  return number(bits_of(high + low) & 0x7FFFFFFFFFFFFFFFU);
}

// Rounds to odd. A number of more than 53 bits becomes a multiple of 2^11, which an f64 can
// represent exactly.
inline double odd(std::uint64_t from) noexcept {
  const std::uint64_t sticky = (from & 0x7FFU) != 0 ? 0x800U : 0U;
  const std::uint64_t kept = from >> 53U == 0 ? from : (from & ~std::uint64_t{0x7FF}) | sticky;
  return exact(kept);
}

// Rounds to nearest, ties to even, in any rounding mode of the CPU.
inline double nearest(std::uint64_t from) noexcept {
  unsigned dropped = 0;
  while (from >> dropped >> 53U != 0) ++dropped;
  if (dropped == 0) return exact(from);
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1U);
  const std::uint64_t left = from & (2 * half - 1U);
  const std::uint64_t kept = from >> dropped;
  const bool up = left > half || (left == half && (kept & 1U) != 0);
  return exact(kept + (up ? 1U : 0U)) * (2.0 * exact(half));
}

// Truncates towards 0. Saturates values that are out of range. Converts NaN to 0.
template <class Integer>
inline Integer truncated(double from) noexcept {
  constexpr bool is_signed = std::is_signed<Integer>::value;
  constexpr unsigned magnitude_bits = 8 * sizeof(Integer) - (is_signed ? 1 : 0);
  // The largest value of the integer type plus 1, as an f64.
  constexpr double past = 2.0 * static_cast<double>(std::uint64_t{1} << (magnitude_bits - 1));
  constexpr auto highest = static_cast<Integer>(~std::uint64_t{0} >> (64 - magnitude_bits));
  constexpr double low = is_signed ? -past : 0.0;
  constexpr auto lowest = static_cast<Integer>(is_signed ? ~std::uint64_t{highest} : 0U);
  if (from >= past) return highest;
  if (from <= low) return lowest;
  return from == from ? static_cast<Integer>(from) : Integer{0};
}

}  // namespace f64_bits

// Each specialisation has the type `word`, widen() to f64, and narrow() from f64.
template <element_kind>
struct element_bits;

template <>
struct element_bits<element_kind::f64> {
  using word = std::uint64_t;

  static double widen(word from) noexcept { return f64_bits::plain(f64_bits::number(from)); }
  static word narrow(double from) noexcept { return f64_bits::bits_of(from); }
};

template <element_kind Kind, class Fields>
struct narrow_float_bits {
  using word = typename Fields::word;

  static double widen(word from) noexcept {
    return f64_bits::of_f32(float_bits<Kind>::widen(from));
  }
  static word narrow(double from) noexcept {
    return rounded<f64_fields, Fields>(f64_bits::bits_of(from));
  }
};
template <>
struct element_bits<element_kind::f32> : narrow_float_bits<element_kind::f32, f32_fields> {};
template <>
struct element_bits<element_kind::f16> : narrow_float_bits<element_kind::f16, f16_fields> {};
template <>
struct element_bits<element_kind::bf16> : narrow_float_bits<element_kind::bf16, bf16_fields> {};
template <>
struct element_bits<element_kind::f8_e4m3fn>
    : narrow_float_bits<element_kind::f8_e4m3fn, e4m3_fields> {};
template <>
struct element_bits<element_kind::f8_e5m2> : narrow_float_bits<element_kind::f8_e5m2, e5m2_fields> {
};

// Every byte except 0 is true. True is written as 1.
template <>
struct element_bits<element_kind::boolean> {
  using word = std::uint8_t;

  static double widen(word from) noexcept { return from != 0 ? 1.0 : 0.0; }
  static word narrow(double from) noexcept {
    return (f64_bits::bits_of(from) & 0x7FFFFFFFFFFFFFFFU) != 0 ? 1 : 0;
  }
};

template <class Integer>
struct integer_bits {
  using word = Integer;

  static double widen(word from) noexcept {
    if constexpr (std::is_signed<Integer>::value) return static_cast<double>(from);
    return f64_bits::exact(static_cast<std::uint64_t>(from));
  }
  static word narrow(double from) noexcept { return f64_bits::truncated<Integer>(from); }
};
template <>
struct element_bits<element_kind::i8> : integer_bits<std::int8_t> {};
template <>
struct element_bits<element_kind::u8> : integer_bits<std::uint8_t> {};
template <>
struct element_bits<element_kind::i16> : integer_bits<std::int16_t> {};
template <>
struct element_bits<element_kind::u16> : integer_bits<std::uint16_t> {};
template <>
struct element_bits<element_kind::i32> : integer_bits<std::int32_t> {};
template <>
struct element_bits<element_kind::u32> : integer_bits<std::uint32_t> {};

template <>
struct element_bits<element_kind::i64> : integer_bits<std::int64_t> {
  static double widen(word from) noexcept {
    const auto bits = static_cast<std::uint64_t>(from);
    return from < 0 ? -f64_bits::odd(0U - bits) : f64_bits::odd(bits);
  }
};
template <>
struct element_bits<element_kind::u64> : integer_bits<std::uint64_t> {
  static double widen(word from) noexcept { return f64_bits::odd(from); }
};

// Returns true for conversions from i64 or u64 to i64, u64 or f64.
constexpr bool converts_integers(conversion kinds) noexcept {
  return (kinds.from == element_kind::i64 || kinds.from == element_kind::u64) &&
         (kinds.to == element_kind::i64 || kinds.to == element_kind::u64 ||
          kinds.to == element_kind::f64);
}

inline std::uint64_t converted_integer(conversion kinds, std::uint64_t from) noexcept {
  if (kinds.from == kinds.to) return from;
  const bool high = from >> 63U != 0;
  const bool negative = kinds.from == element_kind::i64 && high;
  switch (kinds.to) {
    case element_kind::i64: return high ? 0x7FFFFFFFFFFFFFFFU : from;
    case element_kind::u64: return high ? 0U : from;
    default: break;
  }
  const std::uint64_t sign = negative ? 0x8000000000000000U : 0U;
  return sign | f64_bits::bits_of(f64_bits::nearest(negative ? 0U - from : from));
}

template <element_kind Kind>
struct kind_tag {
  static constexpr element_kind kind = Kind;
};

// Calls `work` with the tag of `kind`. This turns a run-time value into a template argument.
template <class Work>
auto with_kind(element_kind kind, const Work& work) {
  switch (kind) {
    case element_kind::f32:
    case element_kind::blocks: break;  // Another function dequantises blocks.
    case element_kind::f16: return work(kind_tag<element_kind::f16>());
    case element_kind::bf16: return work(kind_tag<element_kind::bf16>());
    case element_kind::f8_e4m3fn: return work(kind_tag<element_kind::f8_e4m3fn>());
    case element_kind::f8_e5m2: return work(kind_tag<element_kind::f8_e5m2>());
    case element_kind::f64: return work(kind_tag<element_kind::f64>());
    case element_kind::boolean: return work(kind_tag<element_kind::boolean>());
    case element_kind::i8: return work(kind_tag<element_kind::i8>());
    case element_kind::u8: return work(kind_tag<element_kind::u8>());
    case element_kind::i16: return work(kind_tag<element_kind::i16>());
    case element_kind::u16: return work(kind_tag<element_kind::u16>());
    case element_kind::i32: return work(kind_tag<element_kind::i32>());
    case element_kind::u32: return work(kind_tag<element_kind::u32>());
    case element_kind::i64: return work(kind_tag<element_kind::i64>());
    case element_kind::u64: return work(kind_tag<element_kind::u64>());
  }
  return work(kind_tag<element_kind::f32>());
}

}  // namespace ringload::inline v0
