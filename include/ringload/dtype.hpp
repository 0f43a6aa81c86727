// SPDX-License-Identifier: Apache-2.0
#pragma once

// The element types that a tensor can have. The list is complete: no other types are supported.

#include <cstdint>
#include <optional>
#include <ringload/export.hpp>
#include <string_view>

namespace ringload::inline v0 {

/// The 22 types of safetensors, and c128. The first 22 types are in the order of the reference
/// implementation of safetensors, by ascending alignment. safetensors does not have c128, but
/// NumPy, PyTorch, ONNX and HDF5 do.
enum class dtype : std::uint8_t {
  boolean,  // One byte for each element.
  f4,       // The element type of OCP MXFP4 (E2M1). Two elements in one byte.
  f6_e2m3,  // An element type of OCP MXFP6. Four elements in three bytes.
  f6_e3m2,  // An element type of OCP MXFP6. Four elements in three bytes.
  u8,
  i8,
  f8_e5m2,
  f8_e4m3fn,  // Has no infinity. In safetensors, the name is F8_E4M3.
  f8_e8m0,    // A power of two: the scale of a block in OCP MX formats.
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,  // Two f32: the real part, then the imaginary part.
  f64,
  i64,
  u64,
  c128,  // Two f64: the real part, then the imaginary part. Not in safetensors.
};

/// The number of element types.
inline constexpr unsigned dtype_count = 23;

/// Returns the width of one element in bits: 4, 6, 8, 16, 32, 64 or 128.
RINGLOAD_EXPORT unsigned bits(dtype type) noexcept;

/// Returns the name of the type in safetensors, such as "BF16" or "F8_E4M3". Returns "C128" for
/// c128.
RINGLOAD_EXPORT std::string_view name(dtype type) noexcept;

/// Returns the type with the name `name`. Returns an empty optional if no type has this name. Names
/// are case-sensitive.
RINGLOAD_EXPORT std::optional<dtype> dtype_named(std::string_view name) noexcept;

/// Returns the alignment of one element in memory, in bytes: 1, 2, 4, 8 or 16. The alignment of
/// c128 is 16, because PyTorch requires this alignment.
RINGLOAD_EXPORT unsigned alignment(dtype type) noexcept;

/// Returns true if `load_options::dtype` can convert elements from the dtype `stored` to the dtype
/// `loaded`. `stored` can be f64, f32, f16, bf16, f8_e4m3fn or f8_e5m2. `loaded` can be f32, f16 or
/// bf16, and must differ from `stored`. f64 can be converted in host memory only. The comment of
/// `load_options::dtype` describes the rounding.
RINGLOAD_EXPORT bool convertible(dtype stored, dtype loaded) noexcept;

}  // namespace ringload::inline v0
