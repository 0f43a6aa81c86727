// SPDX-License-Identifier: Apache-2.0
#pragma once

// The closed list of element types that a tensor can have, and their widths in bits.

#include <cstdint>
#include <optional>
#include <ringload/export.hpp>
#include <string_view>

namespace ringload::inline v0 {

/// The 22 types of safetensors, in the order of its reference implementation, which is the order of
/// ascending alignment; and c128. safetensors lacks c128, but NumPy, PyTorch, ONNX and HDF5 have
/// it.
enum class dtype : std::uint8_t {
  boolean,  // One byte for each element.
  f4,       // OCP MXFP4 element, E2M1. Two elements in one byte.
  f6_e2m3,  // OCP MXFP6. Four elements in three bytes.
  f6_e3m2,  // OCP MXFP6.
  u8,
  i8,
  f8_e5m2,
  f8_e4m3fn,  // No infinities. safetensors calls it F8_E4M3.
  f8_e8m0,    // A power of two, the scale of MX blocks.
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,  // Two f32, the real part first.
  f64,
  i64,
  u64,
  c128,  // Two f64, the real part first. Not in safetensors.
};

inline constexpr unsigned dtype_count = 23;

/// Returns the width of one element in bits: 4, 6, 8, 16, 32, 64 or 128.
RINGLOAD_EXPORT unsigned bits(dtype type) noexcept;

/// Returns the name in safetensors, such as "BF16" or "F8_E4M3"; for c128 "C128".
RINGLOAD_EXPORT std::string_view name(dtype type) noexcept;

/// Returns the type with this exact, case-sensitive name; empty for any other text.
RINGLOAD_EXPORT std::optional<dtype> dtype_named(std::string_view name) noexcept;

/// Returns the alignment in bytes of an element in memory: 1, 2, 4 or 8.
RINGLOAD_EXPORT unsigned alignment(dtype type) noexcept;

/// Returns whether `load_options::dtype` converts elements from one type to the other: from f64,
/// f32, f16, bf16, f8_e4m3fn and f8_e5m2 to a different type out of f32, f16 and bf16. The rounding
/// is described at `load_options::dtype`. f64 is converted in host memory only.
RINGLOAD_EXPORT bool convertible(dtype from, dtype to) noexcept;

}  // namespace ringload::inline v0
