// SPDX-License-Identifier: Apache-2.0
#pragma once

// Quantised blocks as GGUF files store them: a small integer for each element, and scales that
// several elements share. The layouts are ggml's.
//
// Runs of 16 or 32 elements of a block have one scale and a regular bit layout:
//
//   q4_0  | scale, 2 bytes | 16 bytes: elements 0 to 15 in the low halves, 16 to 31 in the high |
//
// An element is scale * number, or scale * number + minimum, in f32, with each step rounded to
// nearest. The result has the same bits as that of the Python package gguf on x86-64, including
// NaNs. Host and GPU kernels compile this file, so it is C++17.

#include <cstdint>
#include <cstring>

#include "base/numeric/quant_run.hpp"

namespace ringload {
inline namespace v0 {

enum class block_type : std::uint8_t {
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  q8_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};

constexpr unsigned block_type_count = 14;

namespace blocks {

// The sizes are in element_kind.hpp.
constexpr element_kind kind_of(block_type type) noexcept {
  return static_cast<element_kind>(static_cast<unsigned>(element_kind::blocks) +
                                   static_cast<unsigned>(type));
}
constexpr unsigned bytes_of(block_type type) noexcept { return ringload::bytes_of(kind_of(type)); }
constexpr unsigned elements_of(block_type type) noexcept {
  return ringload::elements_of(kind_of(type));
}

}  // namespace blocks

// For each type: elements and bytes of a block; elements of a run, at most 32; whether a minimum is
// added; the values that the runs of a block share; run `index` of a block; number `i` of a run.
template <block_type>
struct block_format;

// After the scale, 16 bytes with two elements each that are 16 apart.
struct nibbles_of_32 {
  static constexpr unsigned elements = 32;
  static constexpr unsigned run_elements = 16;

  RINGLOAD_ANYWHERE static blocks::run run_at(blocks::byte_pointer nibbles, unsigned index,
                                              float scale) noexcept {
    blocks::run r;
    r.low = nibbles;
    r.low_shift = 4 * index;
    r.scale = scale;
    return r;
  }
};

template <>
struct block_format<block_type::q4_0> : nibbles_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q4_0);
  static constexpr bool adds = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    return run_at(block + 2, index, has.scale);
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 15) - 8;
  }
};

template <>
struct block_format<block_type::q4_1> : nibbles_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q4_1);
  static constexpr bool adds = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block), blocks::half_at(block + 2)};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    blocks::run r = run_at(block + 4, index, has.scale);
    r.minimum = has.minimum;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 15);
  }
};

// The fifth bit of element i is bit i of the first four bytes. It is spread to a byte for each
// element of the run, because CPUs have no vector shift of bytes.
struct fifth_bits_of_32 : nibbles_of_32 {
  struct spread_run : blocks::run {
    std::uint8_t fifth[16];
  };

  RINGLOAD_ANYWHERE static spread_run spread(const blocks::run& r,
                                             blocks::byte_pointer bits) noexcept {
    spread_run out = {r, {}};
    for (unsigned half = 0; half < 2; ++half) {
      // Byte i keeps bit i, which is then moved to the lowest place.
      const std::uint64_t kept = bits[half] * 0x0101010101010101U & 0x8040201008040201U;
      const std::uint64_t moved = (kept + 0x7F7F7F7F7F7F7F7FU) >> 7U & 0x0101010101010101U;
      for (unsigned i = 0; i < 8; ++i) {
        out.fifth[8 * half + i] = static_cast<std::uint8_t>(moved >> (8 * i));
      }
    }
    return out;
  }
  RINGLOAD_ANYWHERE static std::int32_t five_bits(const spread_run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 15) | r.fifth[i] << 4;
  }
};

template <>
struct block_format<block_type::q5_0> : fifth_bits_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q5_0);
  static constexpr bool adds = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block), 0};
  }
  RINGLOAD_ANYWHERE static spread_run run(blocks::byte_pointer block, blocks::shared has,
                                          unsigned index) noexcept {
    blocks::run r = run_at(block + 6, index, has.scale);
    return spread(r, block + 2 + 2 * index);
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const spread_run& r, unsigned i) noexcept {
    return five_bits(r, i) - 16;
  }
};

template <>
struct block_format<block_type::q5_1> : fifth_bits_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q5_1);
  static constexpr bool adds = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block), blocks::half_at(block + 2)};
  }
  RINGLOAD_ANYWHERE static spread_run run(blocks::byte_pointer block, blocks::shared has,
                                          unsigned index) noexcept {
    blocks::run r = run_at(block + 8, index, has.scale);
    r.minimum = has.minimum;
    return spread(r, block + 4 + 2 * index);
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const spread_run& r, unsigned i) noexcept {
    return five_bits(r, i);
  }
};

template <>
struct block_format<block_type::q8_0> {
  static constexpr unsigned elements = 32;
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q8_0);
  static constexpr unsigned run_elements = 32;
  static constexpr bool adds = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned) noexcept {
    blocks::run r;
    r.low = block + 2;
    r.scale = has.scale;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::signed_byte(r.low[i]);
  }
};

// 16 scales, 64 bytes of four elements each, and two halves (f16).
template <>
struct block_format<block_type::q2_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q2_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q2_k);
  static constexpr unsigned run_elements = 16;
  static constexpr bool adds = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block + 80), blocks::half_at(block + 82)};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    const std::uint32_t scales = block[index];
    blocks::run r;
    r.low = block + 16 + index / 8 * 32 + index % 2 * 16;
    r.low_shift = index % 8 / 2 * 2;
    r.scale = blocks::product(has.scale, static_cast<float>(scales & 15U));
    r.minimum = -blocks::product(has.minimum, static_cast<float>(scales >> 4U));
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 3);
  }
};

// 32 bytes of third bits, 64 bytes of four elements each, 16 scales of 6 bits in 12 bytes, and the
// scale.
template <>
struct block_format<block_type::q3_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q3_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q3_k);
  static constexpr unsigned run_elements = 16;
  static constexpr bool adds = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block + 108), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    const blocks::byte_pointer packed = block + 96;
    const std::uint32_t low = static_cast<std::uint32_t>(packed[index % 8]) >> (index / 8 * 4);
    const std::uint32_t high = static_cast<std::uint32_t>(packed[8 + index % 4]) >> (index / 4 * 2);
    const auto scale = static_cast<std::int32_t>((low & 15U) | (high & 3U) << 4U) - 32;
    blocks::run r;
    r.low = block + 32 + index / 8 * 32 + index % 2 * 16;
    r.low_shift = index % 8 / 2 * 2;
    r.high = block + index % 2 * 16;
    r.high_shift = index / 2;
    r.scale = blocks::product(has.scale, static_cast<float>(scale));
    return r;
  }
  // If the third bit is 0, 4 is subtracted.
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 3) - 4 + blocks::high_bits(r, i, 1) * 4;
  }
};

template <>
struct block_format<block_type::q4_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q4_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q4_k);
  static constexpr unsigned run_elements = 32;
  static constexpr bool adds = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block), blocks::half_at(block + 2)};
  }
  // Sets the scales of a q4_k or q5_k block. The caller sets the run's bytes.
  RINGLOAD_ANYWHERE static blocks::run scaled(blocks::byte_pointer block, blocks::shared has,
                                              unsigned index) noexcept {
    const blocks::scale_and_minimum six = blocks::six_bits(block + 4, index);
    blocks::run r;
    r.scale = blocks::product(has.scale, static_cast<float>(six.scale));
    r.minimum = -blocks::product(has.minimum, static_cast<float>(six.minimum));
    r.low_shift = index % 2 * 4;
    return r;
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    blocks::run r = scaled(block, has, index);
    r.low = block + 16 + index / 2 * 32;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 15);
  }
};

// Like q4_k, with 32 bytes of fifth bits: bit n of each byte belongs to run n.
template <>
struct block_format<block_type::q5_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q5_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q5_k);
  static constexpr unsigned run_elements = 32;
  static constexpr bool adds = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block), blocks::half_at(block + 2)};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    blocks::run r = block_format<block_type::q4_k>::scaled(block, has, index);
    r.low = block + 48 + index / 2 * 32;
    r.high = block + 16;
    r.high_shift = index;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 15) | blocks::high_bits(r, i, 1) << 4;
  }
};

// 128 bytes of low halves, 64 bytes of two bits each, 16 signed scales, and the scale.
template <>
struct block_format<block_type::q6_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q6_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q6_k);
  static constexpr unsigned run_elements = 16;
  static constexpr bool adds = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block + 208), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    const unsigned half = index / 8;
    const unsigned quarter = index % 8 / 2;  // 32 elements.
    const unsigned within = index % 2 * 16;
    const std::int32_t scale = blocks::signed_byte(block[192 + index]);
    blocks::run r;
    r.low = block + half * 64 + quarter % 2 * 32 + within;
    r.low_shift = quarter / 2 * 4;
    r.high = block + 128 + half * 32 + within;
    r.high_shift = quarter * 2;
    r.scale = blocks::product(has.scale, static_cast<float>(scale));
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return (blocks::low_bits(r, i, 15) | blocks::high_bits(r, i, 3) << 4) - 32;
  }
};

// The scale is an f32. The block ends with sums of the numbers, which are not needed here.
template <>
struct block_format<block_type::q8_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q8_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q8_k);
  static constexpr unsigned run_elements = 32;
  static constexpr bool adds = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::float_of(blocks::u32_at(block)), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    blocks::run r;
    r.low = block + 4 + index * 32;
    r.scale = has.scale;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::signed_byte(r.low[i]);
  }
};

template <>
struct block_format<block_type::iq4_nl> : nibbles_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::iq4_nl);
  static constexpr bool adds = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    return run_at(block + 2, index, has.scale);
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::iq4_number(blocks::low_bits(r, i, 15));
  }
};

// The scale, 2 and then 4 bits of each of eight further scales, and 128 bytes of elements 16 apart.
template <>
struct block_format<block_type::iq4_xs> {
  static constexpr unsigned elements = blocks::elements_of(block_type::iq4_xs);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::iq4_xs);
  static constexpr unsigned run_elements = 16;
  static constexpr bool adds = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::half_at(block), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    const unsigned which = index / 2;
    const std::uint32_t low = static_cast<std::uint32_t>(block[4 + which / 2]) >> (which % 2 * 4);
    const std::uint32_t high = blocks::u16_at(block + 2) >> (which * 2);
    const auto scale = static_cast<std::int32_t>((low & 15U) | (high & 3U) << 4U) - 32;
    blocks::run r;
    r.low = block + 8 + which * 16;
    r.low_shift = index % 2 * 4;
    r.scale = blocks::product(has.scale, static_cast<float>(scale));
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::iq4_number(blocks::low_bits(r, i, 15));
  }
};

// The scale is half of the power of two that an E8M0 represents: 2^(e - 128).
template <>
struct block_format<block_type::mxfp4> : nibbles_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::mxfp4);
  static constexpr bool adds = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    const std::uint32_t e = block[0];
    return {blocks::float_of(e < 2 ? 0x00200000U << e : (e - 1) << 23U), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared has,
                                           unsigned index) noexcept {
    return run_at(block + 1, index, has.scale);
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::e2m1_number(blocks::low_bits(r, i, 15));
  }
};

// Returns an element as f32. The value of a NaN element is arbitrary.
template <block_type Type>
RINGLOAD_ANYWHERE inline float value_of(const blocks::run& r, std::int32_t number) noexcept {
  const float scaled = blocks::product(r.scale, static_cast<float>(number));
  return block_format<Type>::adds ? blocks::sum(scaled, r.minimum) : scaled;
}

// Returns the bits of an element, with the run's NaN if it is one.
template <block_type Type>
RINGLOAD_ANYWHERE inline std::uint32_t dequantized(const blocks::run& r,
                                                   std::int32_t number) noexcept {
  const std::uint32_t bits = blocks::bits_of(value_of<Type>(r, number));
  const std::uint32_t nan = number == 0 ? r.nan_of_zero : r.nan;
  return blocks::is_nan(bits) ? nan : bits;
}

template <block_type Type>
struct block_tag {
  static constexpr block_type type = Type;
};

// Calls `work` with the tag of a type.
template <class Work>
auto with_block_type(block_type type, Work work) {
  switch (type) {
    case block_type::q4_0: break;
    case block_type::q4_1: return work(block_tag<block_type::q4_1>());
    case block_type::q5_0: return work(block_tag<block_type::q5_0>());
    case block_type::q5_1: return work(block_tag<block_type::q5_1>());
    case block_type::q8_0: return work(block_tag<block_type::q8_0>());
    case block_type::q2_k: return work(block_tag<block_type::q2_k>());
    case block_type::q3_k: return work(block_tag<block_type::q3_k>());
    case block_type::q4_k: return work(block_tag<block_type::q4_k>());
    case block_type::q5_k: return work(block_tag<block_type::q5_k>());
    case block_type::q6_k: return work(block_tag<block_type::q6_k>());
    case block_type::q8_k: return work(block_tag<block_type::q8_k>());
    case block_type::iq4_nl: return work(block_tag<block_type::iq4_nl>());
    case block_type::iq4_xs: return work(block_tag<block_type::iq4_xs>());
    case block_type::mxfp4: return work(block_tag<block_type::mxfp4>());
  }
  return work(block_tag<block_type::q4_0>());
}

}  // namespace v0
}  // namespace ringload
