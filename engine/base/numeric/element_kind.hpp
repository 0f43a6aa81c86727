// SPDX-License-Identifier: Apache-2.0
#pragma once

// The element types that can be converted, and the description of a conversion. Plans, strided maps
// and GPU kernels contain this description. CUDA compiles this file as C++17.

#include <cstdint>

namespace ringload {
inline namespace v0 {

// The values from `blocks` on are the quantised blocks of GGUF files, in the order of block_type.
// Only the first of these values has an enumerator. A conversion can read quantised blocks, but
// cannot write quantised blocks. A conversion from quantised blocks reads whole blocks.
enum class element_kind : std::uint8_t {
  f32,
  f16,
  bf16,
  f8_e4m3fn,
  f8_e5m2,
  f64,
  boolean,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  blocks,
};

inline constexpr unsigned element_kind_count = 15;  // Without quantised blocks.
inline constexpr unsigned block_kind_count = 14;

constexpr bool is_block(element_kind kind) noexcept { return kind >= element_kind::blocks; }

// An alias for parameters that must be floating-point kinds. The compiler does not check this.
using float_type = element_kind;

constexpr std::uint32_t bytes_of(element_kind kind) noexcept {
  constexpr std::uint16_t bytes[element_kind_count + block_kind_count] = {
      4,  2,  2,  1,  1,  8,  1,   1,   1,   2,   2,   4,  4,   8, 8,
      18, 20, 22, 24, 34, 84, 110, 144, 176, 210, 292, 18, 136, 17};
  return bytes[static_cast<unsigned>(kind)];
}

// Returns the number of elements in one quantised block, or 1 for any other kind.
constexpr std::uint32_t elements_of(element_kind kind) noexcept {
  constexpr std::uint16_t elements[block_kind_count] = {32,  32,  32,  32,  32, 256, 256,
                                                        256, 256, 256, 256, 32, 256, 32};
  if (!is_block(kind)) return 1;
  return elements[static_cast<unsigned>(kind) - static_cast<unsigned>(element_kind::blocks)];
}

// The conversion of a tensor's elements during a copy.
struct conversion {
  element_kind from = element_kind::f32;
  element_kind to = element_kind::f32;

  constexpr bool needed() const noexcept { return from != to; }
  constexpr std::uint32_t from_bytes() const noexcept { return bytes_of(from); }
  constexpr std::uint32_t to_bytes() const noexcept { return bytes_of(to) * elements_of(from); }
  friend constexpr bool operator==(conversion a, conversion b) noexcept {
    return a.from == b.from && a.to == b.to;
  }
};

}  // namespace v0
}  // namespace ringload
