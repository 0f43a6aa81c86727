// SPDX-License-Identifier: Apache-2.0
#pragma once

// The expected result of a floating-point conversion, computed with doubles and the description of
// each format, without code of the engine.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <ringload/dtype.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/element_reference.hpp"

namespace ringload::testing {

struct float_format {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity = true;

  int bits() const noexcept { return 1 + exponent_bits + fraction_bits; }
  int bias() const noexcept { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t exponent_mask() const noexcept { return (1U << exponent_bits) - 1; }
  std::uint32_t fraction_mask() const noexcept { return (1U << fraction_bits) - 1; }
};

inline float_format format_of(dtype type) {
  switch (type) {
    case dtype::f32: return {8, 23};
    case dtype::f16: return {5, 10};
    case dtype::bf16: return {8, 7};
    case dtype::f8_e5m2: return {5, 2};
    case dtype::f8_e4m3fn: return {4, 3, false};
    default: throw std::runtime_error("no such floating type");
  }
}

struct taken_apart {
  bool negative;
  std::uint32_t exponent;
  std::uint32_t fraction;
};

inline taken_apart take_apart(std::uint32_t bits, const float_format& f) {
  return {(bits >> (f.bits() - 1)) != 0, (bits >> f.fraction_bits) & f.exponent_mask(),
          bits & f.fraction_mask()};
}

inline bool is_nan(std::uint32_t bits, const float_format& f) {
  const taken_apart t = take_apart(bits, f);
  if (t.exponent != f.exponent_mask()) return false;
  return f.has_infinity ? t.fraction != 0 : t.fraction == f.fraction_mask();
}

// For numbers that are not NaN, without the sign.
inline double magnitude(std::uint32_t bits, const float_format& f) {
  const taken_apart t = take_apart(bits, f);
  if (f.has_infinity && t.exponent == f.exponent_mask()) return INFINITY;
  const int exponent = t.exponent == 0 ? 1 : static_cast<int>(t.exponent);
  const double one = t.exponent == 0 ? 0 : std::ldexp(1.0, f.fraction_bits);
  return std::ldexp(one + t.fraction, exponent - f.bias() - f.fraction_bits);
}

inline std::uint32_t reference(std::uint32_t bits, const float_format& from,
                               const float_format& to) {
  const std::uint32_t sign = take_apart(bits, from).negative ? 1U << (to.bits() - 1) : 0;
  const std::uint32_t infinity = to.exponent_mask() << to.fraction_bits;
  if (is_nan(bits, from)) return sign | infinity | 1U << (to.fraction_bits - 1);
  const double value = magnitude(bits, from);
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;

  // In units of the last place of the target. The quotient is exact, because a double has more bits
  // than an f32, and nearbyint rounds ties to even.
  const int least = 1 - to.bias();
  int exponent = std::ilogb(value);
  if (exponent < least) exponent = least;
  double units = std::nearbyint(std::ldexp(value, to.fraction_bits - exponent));
  if (units == std::ldexp(1.0, to.fraction_bits + 1)) {
    units /= 2;
    ++exponent;
  }
  if (exponent > to.bias()) return sign | infinity;
  const double one = std::ldexp(1.0, to.fraction_bits);
  if (units < one) return sign | static_cast<std::uint32_t>(units);
  return sign | static_cast<std::uint32_t>(exponent + to.bias()) << to.fraction_bits |
         static_cast<std::uint32_t>(units - one);
}

inline std::uint32_t reference(std::uint32_t bits, dtype from, dtype to) {
  return reference(bits, format_of(from), format_of(to));
}

// All elements of a tensor, in a file and in memory.
inline std::string reference_bytes(std::string_view source, dtype from, dtype to) {
  const std::size_t in = bits(from) / 8;
  const std::size_t out = bits(to) / 8;
  std::string made(source.size() / in * out, '\0');
  for (std::size_t at = 0; at < source.size() / in; ++at) {
    std::uint64_t word = 0;
    std::memcpy(&word, source.data() + at * in, in);
    word = from == dtype::f64 ? element_reference(word, from, to)
                              : reference(static_cast<std::uint32_t>(word), from, to);
    std::memcpy(made.data() + at * out, &word, out);
  }
  return made;
}

}  // namespace ringload::testing
