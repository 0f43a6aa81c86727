// SPDX-License-Identifier: Apache-2.0
#pragma once

// Quantised formats with 256 elements in a block. See quant_format.hpp.

#include <cstdint>
#include <cstring>

#include "base/numeric/quant_run.hpp"
#include "base/numeric/quant_type.hpp"

namespace ringload {
inline namespace v0 {

// A block begins with 16 bytes for its 16 runs. Each of these bytes has the scale and the minimum
// of one run. Then the block has 64 bytes with four elements in each byte. The block ends with two
// f16: the scale and the minimum of the block.
template <>
struct block_format<block_type::q2_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q2_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q2_k);
  static constexpr unsigned run_elements = 16;
  static constexpr bool has_minimum = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block + 80), blocks::f16_at(block + 82)};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    const std::uint32_t scales = block[index];
    blocks::run r;
    r.low = block + 16 + index / 8 * 32 + index % 2 * 16;
    r.low_shift = index % 8 / 2 * 2;
    r.scale = blocks::product(common.scale, static_cast<float>(scales & 15U));
    r.minimum = -blocks::product(common.minimum, static_cast<float>(scales >> 4U));
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 3);
  }
};

// A block begins with 32 bytes that have the third bit of each element. Then the block has 64 bytes
// with the low two bits of four elements in each byte. Then the block has 12 bytes with 16 scales
// of 6 bits. The block ends with the scale of the block.
template <>
struct block_format<block_type::q3_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q3_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q3_k);
  static constexpr unsigned run_elements = 16;
  static constexpr bool has_minimum = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block + 108), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
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
    r.scale = blocks::product(common.scale, static_cast<float>(scale));
    return r;
  }
  // Subtracts 4 from numbers whose third bit is 0.
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 3) - 4 + blocks::high_bits(r, i, 1) * 4;
  }
};

// A block begins with two f16: the scale and the minimum of the block. Then the block has 12 bytes
// with the 6-bit scales and minimums of its 8 runs: see scale_and_minimum. The block ends with 128
// bytes with two elements in each byte.
template <>
struct block_format<block_type::q4_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q4_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q4_k);
  static constexpr unsigned run_elements = 32;
  static constexpr bool has_minimum = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block), blocks::f16_at(block + 2)};
  }
  // Returns a run of a q4_k or q5_k block. Sets only the scale, the minimum and `low_shift`. The
  // caller must set `low`. For q5_k, the caller must also set `high` and `high_shift`.
  RINGLOAD_ANYWHERE static blocks::run scaled(blocks::byte_pointer block, blocks::shared common,
                                              unsigned index) noexcept {
    const blocks::scale_and_minimum scales = blocks::scale_and_minimum_at(block + 4, index);
    blocks::run r;
    r.scale = blocks::product(common.scale, static_cast<float>(scales.scale));
    r.minimum = -blocks::product(common.minimum, static_cast<float>(scales.minimum));
    r.low_shift = index % 2 * 4;
    return r;
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    blocks::run r = scaled(block, common, index);
    r.low = block + 16 + index / 2 * 32;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 15);
  }
};

// Like q4_k, but with 32 additional bytes before the last 128 bytes. The additional bytes have the
// fifth bit of each element. Bit n of an additional byte belongs to run n.
template <>
struct block_format<block_type::q5_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q5_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q5_k);
  static constexpr unsigned run_elements = 32;
  static constexpr bool has_minimum = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block), blocks::f16_at(block + 2)};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    blocks::run r = block_format<block_type::q4_k>::scaled(block, common, index);
    r.low = block + 48 + index / 2 * 32;
    r.high = block + 16;
    r.high_shift = index;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 15) | blocks::high_bits(r, i, 1) << 4;
  }
};

// A block begins with 128 bytes. Each of these bytes has the low 4 bits of two elements. Then the
// block has 64 bytes. Each of these bytes has the high 2 bits of four elements. The block ends with
// 16 signed scales and the scale of the block.
template <>
struct block_format<block_type::q6_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q6_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q6_k);
  static constexpr unsigned run_elements = 16;
  static constexpr bool has_minimum = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block + 208), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    const unsigned half = index / 8;
    const unsigned quarter = index % 8 / 2;  // Each quarter has 32 elements.
    const unsigned offset = index % 2 * 16;
    const std::int32_t scale = blocks::signed_byte(block[192 + index]);
    blocks::run r;
    r.low = block + half * 64 + quarter % 2 * 32 + offset;
    r.low_shift = quarter / 2 * 4;
    r.high = block + 128 + half * 32 + offset;
    r.high_shift = quarter * 2;
    r.scale = blocks::product(common.scale, static_cast<float>(scale));
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return (blocks::low_bits(r, i, 15) | blocks::high_bits(r, i, 3) << 4) - 32;
  }
};

// A block begins with an f32 scale. Then the block has one byte for each element. The block ends
// with sums of the numbers, which dequantisation does not need.
template <>
struct block_format<block_type::q8_k> {
  static constexpr unsigned elements = blocks::elements_of(block_type::q8_k);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q8_k);
  static constexpr unsigned run_elements = 32;
  static constexpr bool has_minimum = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::float_of(blocks::u32_at(block)), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    blocks::run r;
    r.low = block + 4 + index * 32;
    r.scale = common.scale;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::signed_byte(r.low[i]);
  }
};

// A block begins with an f16 scale. Then the block has eight scales of 6 bits: first the 2 high
// bits of each scale, then the 4 low bits of each scale. The block ends with 128 bytes with two
// elements in each byte. The two elements of a byte are 16 elements apart.
template <>
struct block_format<block_type::iq4_xs> {
  static constexpr unsigned elements = blocks::elements_of(block_type::iq4_xs);
  static constexpr unsigned bytes = blocks::bytes_of(block_type::iq4_xs);
  static constexpr unsigned run_elements = 16;
  static constexpr bool has_minimum = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    const unsigned scale_index = index / 2;
    const std::uint32_t low =
        static_cast<std::uint32_t>(block[4 + scale_index / 2]) >> (scale_index % 2 * 4);
    const std::uint32_t high = blocks::u16_at(block + 2) >> (scale_index * 2);
    const auto scale = static_cast<std::int32_t>((low & 15U) | (high & 3U) << 4U) - 32;
    blocks::run r;
    r.low = block + 8 + scale_index * 16;
    r.low_shift = index % 2 * 4;
    r.scale = blocks::product(common.scale, static_cast<float>(scale));
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::iq4_number(blocks::low_bits(r, i, 15));
  }
};

}  // namespace v0
}  // namespace ringload
