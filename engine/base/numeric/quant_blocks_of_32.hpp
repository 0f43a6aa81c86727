// SPDX-License-Identifier: Apache-2.0
#pragma once

// Quantised formats with 32 elements and one scale in a block. See quant_format.hpp.

#include <cstdint>
#include <cstring>

#include "base/numeric/quant_run.hpp"
#include "base/numeric/quant_type.hpp"

namespace ringload {
inline namespace v0 {

// The last 16 bytes of a block have 4 bits of each element. Byte i has the elements i and i + 16.
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
  static constexpr bool has_minimum = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    return run_at(block + 2, index, common.scale);
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 15) - 8;
  }
};

template <>
struct block_format<block_type::q4_1> : nibbles_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q4_1);
  static constexpr bool has_minimum = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block), blocks::f16_at(block + 2)};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    blocks::run r = run_at(block + 4, index, common.scale);
    r.minimum = common.minimum;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::low_bits(r, i, 15);
  }
};

// A block has four bytes with the fifth bit of each element. Bit i of these bytes belongs to
// element i. spread() expands each bit to a byte, because x86 has no vector shift of bytes.
struct fifth_bits_of_32 : nibbles_of_32 {
  struct spread_run : blocks::run {
    std::uint8_t fifth[16];
  };

  RINGLOAD_ANYWHERE static spread_run spread(const blocks::run& r,
                                             blocks::byte_pointer bits) noexcept {
    spread_run out = {r, {}};
    for (unsigned half = 0; half < 2; ++half) {
      // Keeps bit i in byte i, then moves the bit to the lowest position of the byte.
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
  static constexpr bool has_minimum = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block), 0};
  }
  RINGLOAD_ANYWHERE static spread_run run(blocks::byte_pointer block, blocks::shared common,
                                          unsigned index) noexcept {
    blocks::run r = run_at(block + 6, index, common.scale);
    return spread(r, block + 2 + 2 * index);
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const spread_run& r, unsigned i) noexcept {
    return five_bits(r, i) - 16;
  }
};

template <>
struct block_format<block_type::q5_1> : fifth_bits_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::q5_1);
  static constexpr bool has_minimum = true;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block), blocks::f16_at(block + 2)};
  }
  RINGLOAD_ANYWHERE static spread_run run(blocks::byte_pointer block, blocks::shared common,
                                          unsigned index) noexcept {
    blocks::run r = run_at(block + 8, index, common.scale);
    r.minimum = common.minimum;
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
  static constexpr bool has_minimum = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned) noexcept {
    blocks::run r;
    r.low = block + 2;
    r.scale = common.scale;
    return r;
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::signed_byte(r.low[i]);
  }
};

template <>
struct block_format<block_type::iq4_nl> : nibbles_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::iq4_nl);
  static constexpr bool has_minimum = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    return {blocks::f16_at(block), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    return run_at(block + 2, index, common.scale);
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::iq4_number(blocks::low_bits(r, i, 15));
  }
};

// The first byte e of a block is an E8M0 scale: 2^(e - 127). The scale of the run is half of this
// value, because e2m1_number() returns twice the number.
template <>
struct block_format<block_type::mxfp4> : nibbles_of_32 {
  static constexpr unsigned bytes = blocks::bytes_of(block_type::mxfp4);
  static constexpr bool has_minimum = false;

  RINGLOAD_ANYWHERE static blocks::shared shared(blocks::byte_pointer block) noexcept {
    const std::uint32_t e = block[0];
    return {blocks::float_of(e < 2 ? 0x00200000U << e : (e - 1) << 23U), 0};
  }
  RINGLOAD_ANYWHERE static blocks::run run(blocks::byte_pointer block, blocks::shared common,
                                           unsigned index) noexcept {
    return run_at(block + 1, index, common.scale);
  }
  RINGLOAD_ANYWHERE static std::int32_t number(const blocks::run& r, unsigned i) noexcept {
    return blocks::e2m1_number(blocks::low_bits(r, i, 15));
  }
};

}  // namespace v0
}  // namespace ringload
