// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions that the layouts of quantised blocks share. A run is a sequence of elements with one
// scale and a regular bit layout. Host code and GPU kernels include this file.

#include <cstdint>
#include <cstring>

#include "base/numeric/convert_float.hpp"

namespace ringload {
inline namespace v0 {

namespace blocks {

using byte_pointer = const std::uint8_t*;

RINGLOAD_ANYWHERE inline float float_of(std::uint32_t bits) noexcept {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

RINGLOAD_ANYWHERE inline std::uint32_t u16_at(byte_pointer bytes) noexcept {
  return bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8U;
}

RINGLOAD_ANYWHERE inline std::uint32_t u32_at(byte_pointer bytes) noexcept {
  return u16_at(bytes) | u16_at(bytes + 2) << 16U;
}

RINGLOAD_ANYWHERE inline std::uint32_t bits_of(float value) noexcept {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

RINGLOAD_ANYWHERE inline bool is_nan(std::uint32_t bits) noexcept {
  return (bits & 0x7FFFFFFFU) > f32_bits::infinity;
}

// Converts an f16 to f32, and keeps the payload of a NaN.
RINGLOAD_ANYWHERE inline float f16_at(byte_pointer bytes) noexcept {
  const std::uint32_t half = u16_at(bytes);
  const std::uint32_t wide = float_bits<float_type::f16>::widen(static_cast<std::uint16_t>(half));
  return float_of(is_nan(wide) ? wide | (half & 0x3FFU) << 13U : wide);
}

// Prevents the device compiler from fusing a multiplication and an addition, because the fused
// operation would round only once.
RINGLOAD_ANYWHERE inline float product(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

RINGLOAD_ANYWHERE inline float sum(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

RINGLOAD_ANYWHERE inline std::int32_t signed_byte(std::uint8_t byte) noexcept {
  return static_cast<std::int8_t>(byte);
}

// Values that all runs of a block share. Each format computes a run from these values.
struct shared {
  float scale = 0;
  float minimum = 0;
};

// The stored elements of one run, with their scale and minimum.
struct run {
  byte_pointer low = nullptr;   // Byte i contains the low bits of element i.
  byte_pointer high = nullptr;  // Byte i contains the high bits of element i. Can be null.
  std::uint32_t low_shift = 0;
  std::uint32_t high_shift = 0;
  float scale = 0;
  float minimum = 0;  // Added to each element.
  // The bits of the result if an element is NaN. `nan_of_zero` is the result if the stored number
  // of the element, before scaling, is 0. `nan` is the result for all other numbers.
  std::uint32_t nan = 0;
  std::uint32_t nan_of_zero = 0;
};

// Returns true if the scale and the minimum are finite. If so, no element is NaN: a product of
// finite numbers is not NaN. Formats with a minimum have f16 scales, so sums of scaled numbers and
// minimums stay finite.
RINGLOAD_ANYWHERE inline bool finite(shared common) noexcept {
  return (bits_of(common.scale) & f32_bits::infinity) != f32_bits::infinity &&
         (bits_of(common.minimum) & f32_bits::infinity) != f32_bits::infinity;
}

// The NaN that x86-64 produces for infinity * 0 and for infinity - infinity. If an operand is NaN,
// x86-64 returns the operand as a quiet NaN. If both operands are NaN, x86-64 returns the first
// operand. Other CPUs and GPUs return other NaNs, so set_nans() computes the NaNs of x86-64 from
// the bits of the block.
constexpr std::uint32_t nan_of_numbers = 0xFFC00000U;

RINGLOAD_ANYWHERE inline std::uint32_t nan_made_of(float value) noexcept {
  const std::uint32_t bits = bits_of(value);
  return is_nan(bits) ? bits | f32_bits::quiet_nan : nan_of_numbers;
}

RINGLOAD_ANYWHERE inline void set_nans(run& r, shared common) noexcept {
  const std::uint32_t scale = bits_of(r.scale);
  if (is_nan(scale)) {
    r.nan = nan_made_of(common.scale);
    r.nan_of_zero = r.nan;
    return;
  }
  r.nan = is_nan(bits_of(r.minimum)) ? nan_made_of(common.minimum) : nan_of_numbers;
  const bool infinite = (scale & 0x7FFFFFFFU) == f32_bits::infinity;
  r.nan_of_zero = infinite ? nan_of_numbers : r.nan;
}

RINGLOAD_ANYWHERE inline std::int32_t low_bits(const run& r, unsigned i,
                                               std::uint32_t mask) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(r.low[i]) >> r.low_shift & mask);
}

RINGLOAD_ANYWHERE inline std::int32_t high_bits(const run& r, unsigned i,
                                                std::uint32_t mask) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(r.high[i]) >> r.high_shift & mask);
}

// Returns `a` if `selector` is 0, and `b` if `selector` is -1. iq4_number() and e2m1_number()
// select their results with this function, because compilers cannot vectorise a table.
RINGLOAD_ANYWHERE inline std::int32_t either(std::int32_t selector, std::int32_t a,
                                             std::int32_t b) noexcept {
  return a ^ ((a ^ b) & selector);
}

// Returns the entry with the index `bits` of this table: -127 -104 -83 -65 -49 -35 -22 -10 1 13 25
// 38 53 69 89 113.
RINGLOAD_ANYWHERE inline std::int32_t iq4_number(std::int32_t bits) noexcept {
  const std::int32_t bit0 = -(bits & 1);
  const std::int32_t bit1 = -(bits >> 1 & 1);
  const std::int32_t bit2 = -(bits >> 2 & 1);
  const std::int32_t bit3 = -(bits >> 3 & 1);
  const std::int32_t low = either(bit1, either(bit0, -127, -104), either(bit0, -83, -65));
  const std::int32_t middle = either(bit1, either(bit0, -49, -35), either(bit0, -22, -10));
  const std::int32_t high = either(bit1, either(bit0, 1, 13), either(bit0, 25, 38));
  const std::int32_t highest = either(bit1, either(bit0, 53, 69), either(bit0, 89, 113));
  return either(bit3, either(bit2, low, middle), either(bit2, high, highest));
}

// Returns twice an E2M1 number: 0 1 2 3 4 6 8 12, or the negative. Negative 0 becomes 0.
RINGLOAD_ANYWHERE inline std::int32_t e2m1_number(std::int32_t bits) noexcept {
  const std::int32_t bit0 = -(bits & 1);
  const std::int32_t bit1 = -(bits >> 1 & 1);
  const std::int32_t bit2 = -(bits >> 2 & 1);
  const std::int32_t bit3 = -(bits >> 3 & 1);
  const std::int32_t large = either(bit1, either(bit0, 4, 6), either(bit0, 8, 12));
  return (either(bit2, bits & 3, large) ^ bit3) - bit3;
}

// A q4_k or q5_k block stores eight 6-bit scales and eight 6-bit minimums in 12 bytes. The first
// four scales are the low 6 bits of bytes 0 to 3. The first four minimums are the low 6 bits of
// bytes 4 to 7. The other scales and minimums have 4 low bits in bytes 8 to 11, and 2 high bits in
// the upper bits of bytes 0 to 7.
struct scale_and_minimum {
  std::uint32_t scale;
  std::uint32_t minimum;
};

RINGLOAD_ANYWHERE inline scale_and_minimum scale_and_minimum_at(byte_pointer packed,
                                                                unsigned index) noexcept {
  if (index < 4) return {packed[index] & 63U, packed[index + 4] & 63U};
  const std::uint32_t low = packed[index + 4];
  return {(low & 15U) | (packed[index - 4] >> 2U & 0x30U),
          low >> 4U | (packed[index] >> 2U & 0x30U)};
}

}  // namespace blocks

}  // namespace v0
}  // namespace ringload
