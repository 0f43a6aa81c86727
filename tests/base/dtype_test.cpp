// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <ringload/dtype.hpp>
#include <set>
#include <string>
#include <string_view>

using namespace ringload;

namespace {

struct expectation {
  dtype type;
  std::string_view text;
  unsigned bits;
  unsigned alignment;
};

// A second list, in groups of equal width, so that a shifted row is noticed.
constexpr std::array<expectation, dtype_count> table = {{
    {dtype::f4, "F4", 4, 1},
    {dtype::f6_e2m3, "F6_E2M3", 6, 1},
    {dtype::f6_e3m2, "F6_E3M2", 6, 1},
    {dtype::boolean, "BOOL", 8, 1},
    {dtype::u8, "U8", 8, 1},
    {dtype::i8, "I8", 8, 1},
    {dtype::f8_e5m2, "F8_E5M2", 8, 1},
    {dtype::f8_e4m3fn, "F8_E4M3", 8, 1},
    {dtype::f8_e8m0, "F8_E8M0", 8, 1},
    {dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8, 1},
    {dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8, 1},
    {dtype::i16, "I16", 16, 2},
    {dtype::u16, "U16", 16, 2},
    {dtype::f16, "F16", 16, 2},
    {dtype::bf16, "BF16", 16, 2},
    {dtype::i32, "I32", 32, 4},
    {dtype::u32, "U32", 32, 4},
    {dtype::f32, "F32", 32, 4},
    {dtype::f64, "F64", 64, 8},
    {dtype::i64, "I64", 64, 8},
    {dtype::u64, "U64", 64, 8},
    {dtype::c64, "C64", 64, 4},      // A pair of f32, which need 4.
    {dtype::c128, "C128", 128, 16},  // PyTorch needs 16.
}};

}  // namespace

TEST_CASE("dtype: each has its name, width and alignment") {
  std::set<dtype> seen;
  for (const expectation& e : table) {
    CAPTURE(e.text);
    CHECK(name(e.type) == e.text);
    CHECK(bits(e.type) == e.bits);
    CHECK(alignment(e.type) == e.alignment);
    seen.insert(e.type);
  }
  CHECK(seen.size() == dtype_count);
}

TEST_CASE("dtype: a name leads back to its type") {
  for (unsigned i = 0; i < dtype_count; ++i) {
    const auto type = static_cast<dtype>(i);
    CAPTURE(name(type));
    CHECK(dtype_named(name(type)) == type);
  }
}

TEST_CASE("dtype: every other text names nothing") {
  for (const std::string_view text :
       {"", " ", "F", "f32", "Bf16", "F32 ", " F32", "F128", "F8", "F6", "F8_E4M3FN", "float32",
        "BOOLEAN", "C32", "c128", "U4", "I4"}) {
    CAPTURE(text);
    CHECK_FALSE(dtype_named(text));
  }
  CHECK_FALSE(dtype_named(std::string_view("F32\0", 4)));
  CHECK_FALSE(dtype_named(std::string(100'000, 'F')));
}
