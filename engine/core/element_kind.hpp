// SPDX-License-Identifier: Apache-2.0
#pragma once

// The element types that can be converted, and a conversion as data: plans, strided maps and GPU
// kernels carry it. CUDA compiles it as C++17.

#include <cstdint>

namespace ringload {
inline namespace v0 {

// Block types of GGUF will follow as further sources; from_bytes() is then that of a whole block.
enum class element_kind : std::uint8_t {
  f32,
  f16,
  bf16,
  f8_e4m3,
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
};

inline constexpr unsigned element_kind_count = 15;

// Where only floating-point kinds are meant.
using float_type = element_kind;

constexpr std::uint32_t bytes_of(element_kind kind) noexcept {
  constexpr std::uint8_t bytes[element_kind_count] = {4, 2, 2, 1, 1, 8, 1, 1, 1, 2, 2, 4, 4, 8, 8};
  return bytes[static_cast<unsigned>(kind)];
}

// The conversion of a tensor's elements while they are copied.
struct conversion {
  element_kind from = element_kind::f32;
  element_kind to = element_kind::f32;

  constexpr bool needed() const noexcept { return from != to; }
  constexpr std::uint32_t from_bytes() const noexcept { return bytes_of(from); }
  constexpr std::uint32_t to_bytes() const noexcept { return bytes_of(to); }
  friend constexpr bool operator==(conversion a, conversion b) noexcept {
    return a.from == b.from && a.to == b.to;
  }
};

}  // namespace v0
}  // namespace ringload
