// SPDX-License-Identifier: Apache-2.0

#include "formats/zt/zt_dtype.hpp"

#include <algorithm>
#include <array>

namespace ringload::inline v0 {

namespace {

struct dtype_row {
  std::string_view short_name;
  std::string_view long_name;
  ringload::dtype dtype;
};
constexpr auto dtypes = std::to_array<dtype_row>({
    {"f64", "float64", dtype::f64},
    {"f32", "float32", dtype::f32},
    {"f16", "float16", dtype::f16},
    {"bf16", "bfloat16", dtype::bf16},
    {"i64", "int64", dtype::i64},
    {"i32", "int32", dtype::i32},
    {"i16", "int16", dtype::i16},
    {"i8", "int8", dtype::i8},
    {"u64", "uint64", dtype::u64},
    {"u32", "uint32", dtype::u32},
    {"u16", "uint16", dtype::u16},
    {"u8", "uint8", dtype::u8},
    {"bool", "bool", dtype::boolean},
});

// Logical types that have a dtype in ringload, and the dtype of their stored elements.
struct logical_row {
  std::string_view name;
  ringload::dtype stored;
  ringload::dtype logical;
};
constexpr auto logical_types = std::to_array<logical_row>({
    {"f8_e4m3fn", dtype::u8, dtype::f8_e4m3fn},
    {"f8_e5m2", dtype::u8, dtype::f8_e5m2},
    {"f8_e4m3fnuz", dtype::u8, dtype::f8_e4m3fnuz},
    {"f8_e5m2fnuz", dtype::u8, dtype::f8_e5m2fnuz},
    {"f8_e8m0fnu", dtype::u8, dtype::f8_e8m0},
    {"complex64", dtype::f32, dtype::c64},
    {"complex128", dtype::f64, dtype::c128},
});

std::optional<ringload::dtype> dtype_of(std::string_view name,
                                        std::string_view dtype_row::* column) {
  const auto found = std::ranges::find(dtypes, name, column);
  return found == dtypes.end() ? std::nullopt : std::optional(found->dtype);
}

}  // namespace

std::optional<ringload::dtype> zt_dtype(std::string_view short_name) noexcept {
  return dtype_of(short_name, &dtype_row::short_name);
}

std::optional<ringload::dtype> zt_0_1_dtype(std::string_view long_name) noexcept {
  return dtype_of(long_name, &dtype_row::long_name);
}

std::optional<zt_element> zt_element_of(ringload::dtype type) noexcept {
  const auto row = std::ranges::find(logical_types, type, &logical_row::logical);
  if (row != logical_types.end()) return zt_element{row->stored, row->name};
  if (zt_dtype_name(type).empty()) return std::nullopt;
  return zt_element{type, {}};
}

std::string_view zt_dtype_name(ringload::dtype stored) noexcept {
  const auto found = std::ranges::find(dtypes, stored, &dtype_row::dtype);
  return found == dtypes.end() ? std::string_view() : found->short_name;
}

std::optional<zt_logical> zt_logical_type(std::string_view name) noexcept {
  const auto found = std::ranges::find(logical_types, name, &logical_row::name);
  if (found == logical_types.end()) return std::nullopt;
  return zt_logical{found->stored, found->logical};
}

}  // namespace ringload::inline v0
