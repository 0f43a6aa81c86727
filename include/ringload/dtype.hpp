// SPDX-License-Identifier: Apache-2.0
#pragma once

// The closed list of element types that a tensor can have, and their widths in bits.

#include <cstdint>
#include <optional>
#include <ringload/export.hpp>
#include <string_view>

namespace ringload::inline v0 {

/// The 22 types of safetensors, in the order of its reference implementation, which is also that of
/// ascending alignment; and c128, which it lacks and NumPy, PyTorch, ONNX and HDF5 have.
enum class dtype : std::uint8_t {
  boolean,  // One byte an element.
  f4,       // OCP MXFP4 element, E2M1. Two to a byte.
  f6_e2m3,  // OCP MXFP6. Four to three bytes.
  f6_e3m2,  // OCP MXFP6.
  u8,
  i8,
  f8_e5m2,
  f8_e4m3fn,  // What others call e4m3fn: no infinities.
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
  c128,  // Two f64, the real part first. In no safetensors file.
};

inline constexpr unsigned dtype_count = 23;

/// Width of one element in bits: 4, 6, 8, 16, 32, 64 or 128.
RINGLOAD_EXPORT unsigned bits(dtype type) noexcept;

/// The name that safetensors uses: "BF16", "F8_E4M3"; and "C128".
RINGLOAD_EXPORT std::string_view name(dtype type) noexcept;

/// The type of that exact, case-sensitive name; empty for any other text.
RINGLOAD_EXPORT std::optional<dtype> dtype_named(std::string_view name) noexcept;

/// The alignment in bytes that an element needs in memory: 1, 2, 4 or 8.
RINGLOAD_EXPORT unsigned alignment(dtype type) noexcept;

/// Whether `load_options::dtype` converts elements of the one type to the other: f64, f32, f16,
/// bf16, f8_e4m3fn and f8_e5m2 to f32, f16 and bf16, if that is another type. See there for the
/// rounding. f64 is converted in host memory only.
RINGLOAD_EXPORT bool convertible(dtype from, dtype to) noexcept;

}  // namespace ringload::inline v0
