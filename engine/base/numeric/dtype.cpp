// SPDX-License-Identifier: Apache-2.0

#include <array>
#include <ringload/dtype.hpp>

namespace ringload::inline v0 {

namespace {

struct row {
  std::string_view name;
  unsigned bits;
  unsigned alignment;
};

// A C64 number consists of two f32 numbers, so C64 needs only the alignment of f32. PyTorch reads
// C128 with instructions that need an alignment of 16 bytes. A misaligned tensor would end the
// process.
constexpr std::array<row, dtype_count> dtype_rows = {{
    {"BOOL", 8, 1},    {"F4", 4, 1},          {"F6_E2M3", 6, 1},     {"F6_E3M2", 6, 1},
    {"U8", 8, 1},      {"I8", 8, 1},          {"F8_E5M2", 8, 1},     {"F8_E4M3", 8, 1},
    {"F8_E8M0", 8, 1}, {"F8_E4M3FNUZ", 8, 1}, {"F8_E5M2FNUZ", 8, 1}, {"I16", 16, 2},
    {"U16", 16, 2},    {"F16", 16, 2},        {"BF16", 16, 2},       {"I32", 32, 4},
    {"U32", 32, 4},    {"F32", 32, 4},        {"C64", 64, 4},        {"F64", 64, 8},
    {"I64", 64, 8},    {"U64", 64, 8},        {"C128", 128, 16},
}};

const row& row_of(dtype type) noexcept { return dtype_rows[static_cast<std::size_t>(type)]; }

}  // namespace

unsigned bits(dtype type) noexcept { return row_of(type).bits; }

std::string_view name(dtype type) noexcept { return row_of(type).name; }

unsigned alignment(dtype type) noexcept { return row_of(type).alignment; }

std::optional<dtype> dtype_named(std::string_view name) noexcept {
  for (std::size_t i = 0; i < dtype_rows.size(); ++i) {
    if (dtype_rows[i].name == name) return static_cast<dtype>(i);
  }
  return std::nullopt;
}

}  // namespace ringload::inline v0
