// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the layouts of block_format.hpp are made of: runs of elements that have one scale and lie in
// their bytes in one regular way. The host and the kernels of a GPU both compile this header.

#include <cstdint>
#include <cstring>

#include "core/float_bits.hpp"

namespace ringload {
inline namespace v0 {

namespace blocks {

using byte_pointer = const std::uint8_t*;

RINGLOAD_ANYWHERE inline float float_of(std::uint32_t bits) noexcept {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

RINGLOAD_ANYWHERE inline std::uint32_t u16_at(byte_pointer at) noexcept {
  return at[0] | static_cast<std::uint32_t>(at[1]) << 8U;
}

RINGLOAD_ANYWHERE inline std::uint32_t u32_at(byte_pointer at) noexcept {
  return u16_at(at) | u16_at(at + 2) << 16U;
}

RINGLOAD_ANYWHERE inline std::uint32_t bits_of(float value) noexcept {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

RINGLOAD_ANYWHERE inline bool is_nan(std::uint32_t bits) noexcept {
  return (bits & 0x7FFFFFFFU) > f32_bits::infinity;
}

// A NaN keeps its payload.
RINGLOAD_ANYWHERE inline float half_at(byte_pointer at) noexcept {
  const std::uint32_t half = u16_at(at);
  const std::uint32_t wide = float_bits<float_type::f16>::widen(static_cast<std::uint16_t>(half));
  return float_of(is_nan(wide) ? wide | (half & 0x3FFU) << 13U : wide);
}

// A device's compiler would make one operation of both, which rounds once.
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

// What all runs of a block share; they may divide it further.
struct shared {
  float scale = 0;
  float minimum = 0;
};

// Of one run: where its elements lie, and what they share.
struct run {
  byte_pointer low = nullptr;   // The bytes with the numbers' low bits, one for each element.
  byte_pointer high = nullptr;  // Those with further bits.
  std::uint32_t low_shift = 0;
  std::uint32_t high_shift = 0;
  float scale = 0;
  float minimum = 0;  // What is added.
  // The bits of an element that is a NaN, and of one whose number is 0.
  std::uint32_t nan = 0;
  std::uint32_t nan_of_zero = 0;
};

// Of such no element is a NaN: sums and products of what they are stay far below f32's infinity, or
// nothing is added to them.
RINGLOAD_ANYWHERE inline bool finite(shared has) noexcept {
  return (bits_of(has.scale) & f32_bits::infinity) != f32_bits::infinity &&
         (bits_of(has.minimum) & f32_bits::infinity) != f32_bits::infinity;
}

// What x86-64 makes of infinity * 0, and of infinity - infinity. Of an operation on a NaN it makes
// that NaN, quiet; of two the first. Other processors and GPUs make others, so NaNs are made here,
// of the bits that the block has.
constexpr std::uint32_t nan_of_numbers = 0xFFC00000U;

RINGLOAD_ANYWHERE inline std::uint32_t nan_made_of(float value) noexcept {
  const std::uint32_t bits = bits_of(value);
  return is_nan(bits) ? bits | f32_bits::quiet_nan : nan_of_numbers;
}

RINGLOAD_ANYWHERE inline void set_nans(run& r, shared has) noexcept {
  const std::uint32_t scale = bits_of(r.scale);
  if (is_nan(scale)) {
    r.nan = nan_made_of(has.scale);
    r.nan_of_zero = r.nan;
    return;
  }
  r.nan = is_nan(bits_of(r.minimum)) ? nan_made_of(has.minimum) : nan_of_numbers;
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

// The numbers of the two non-linear types. Chosen bit by bit, and not out of a table: so the
// compilers of a processor make vectors of it. `second` is 0 or -1.
RINGLOAD_ANYWHERE inline std::int32_t either(std::int32_t second, std::int32_t a,
                                             std::int32_t b) noexcept {
  return a ^ ((a ^ b) & second);
}

// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113
RINGLOAD_ANYWHERE inline std::int32_t iq4_number(std::int32_t bits) noexcept {
  const std::int32_t one = -(bits & 1);
  const std::int32_t two = -(bits >> 1 & 1);
  const std::int32_t four = -(bits >> 2 & 1);
  const std::int32_t eight = -(bits >> 3 & 1);
  const std::int32_t low = either(two, either(one, -127, -104), either(one, -83, -65));
  const std::int32_t middle = either(two, either(one, -49, -35), either(one, -22, -10));
  const std::int32_t high = either(two, either(one, 1, 13), either(one, 25, 38));
  const std::int32_t highest = either(two, either(one, 53, 69), either(one, 89, 113));
  return either(eight, either(four, low, middle), either(four, high, highest));
}

// An E2M1, twice: 0 1 2 3 4 6 8 12, and these negative; a negative 0 is 0.
RINGLOAD_ANYWHERE inline std::int32_t e2m1_number(std::int32_t bits) noexcept {
  const std::int32_t one = -(bits & 1);
  const std::int32_t two = -(bits >> 1 & 1);
  const std::int32_t four = -(bits >> 2 & 1);
  const std::int32_t eight = -(bits >> 3 & 1);
  const std::int32_t large = either(two, either(one, 4, 6), either(one, 8, 12));
  return (either(four, bits & 3, large) ^ eight) - eight;
}

// The eight 6-bit scales and minimums of q4_k and q5_k, in 12 bytes: the first four of each in the
// low 6 bits of bytes 0 to 3 and 4 to 7; of the others 4 bits in bytes 8 to 11, 2 above the former.
struct scale_and_minimum {
  std::uint32_t scale;
  std::uint32_t minimum;
};

RINGLOAD_ANYWHERE inline scale_and_minimum six_bits(byte_pointer packed, unsigned index) noexcept {
  if (index < 4) return {packed[index] & 63U, packed[index + 4] & 63U};
  const std::uint32_t low = packed[index + 4];
  return {(low & 15U) | (packed[index - 4] >> 2U & 0x30U),
          low >> 4U | (packed[index] >> 2U & 0x30U)};
}

}  // namespace blocks

}  // namespace v0
}  // namespace ringload
