// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors/header_layout.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using namespace ringload;

namespace {

constexpr std::uint64_t data_begin = 100;
constexpr std::uint64_t two_to_63 = std::uint64_t{1} << 63;

struct stated {
  std::string name;
  ringload::dtype dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin;
  std::uint64_t end;
};

result<std::vector<entry>> laid_out(const std::vector<stated>& tensors, std::uint64_t data_bytes,
                                    strictness strictness = strictness::strict) {
  safetensors_json header;
  for (const stated& each : tensors) {
    claim c;
    c.begin = each.begin;
    c.end = each.end;
    c.tensor = static_cast<std::uint32_t>(header.tensors.size());
    header.claims.push_back(c);
    entry& e = header.tensors.emplace_back();
    e.name = each.name;
    e.dtype = each.dtype;
    e.shape = each.shape;
  }
  return lay_out(std::move(header), {data_begin, data_begin + data_bytes}, strictness);
}

boost::system::error_code code_of(const std::vector<stated>& tensors, std::uint64_t data_bytes,
                                  strictness strictness = strictness::strict) {
  const auto answer = laid_out(tensors, data_bytes, strictness);
  return answer ? boost::system::error_code{} : answer.error().code;
}

}  // namespace

TEST_CASE("layout: tensors come out in file order with their place in the file") {
  const auto placed = laid_out({{"b", dtype::f32, {2}, 4, 12}, {"a", dtype::u8, {4}, 0, 4}}, 12);
  REQUIRE(placed.has_value());
  REQUIRE(placed->size() == 2);
  CHECK(placed->at(0).name == "a");
  CHECK(placed->at(0).offset == 100);
  CHECK(placed->at(0).bytes == 4);
  CHECK(placed->at(1).name == "b");
  CHECK(placed->at(1).offset == 104);
  CHECK(placed->at(1).bytes == 8);
}

TEST_CASE("layout: holes, overlaps and reversed offsets are invalid_offsets") {
  const auto u8 = dtype::u8;
  CHECK(code_of({{"a", u8, {4}, 1, 5}}, 5) == errc::invalid_offsets);
  CHECK(code_of({{"a", u8, {4}, 0, 4}, {"b", u8, {4}, 5, 9}}, 9) == errc::invalid_offsets);
  CHECK(code_of({{"a", u8, {4}, 0, 4}, {"b", u8, {4}, 3, 7}}, 7) == errc::invalid_offsets);
  CHECK(code_of({{"a", u8, {4}, 0, 4}, {"b", u8, {4}, 0, 4}}, 4) == errc::invalid_offsets);
  CHECK(code_of({{"a", u8, {8}, 0, 8}, {"b", u8, {2}, 2, 4}}, 8) == errc::invalid_offsets);
  CHECK(code_of({{"a", u8, {4}, 0, 4}, {"b", u8, {4}, 4, 0}}, 4) == errc::invalid_offsets);
  CHECK(code_of({{"a", u8, {0}, UINT64_MAX, UINT64_MAX}}, 0) == errc::invalid_offsets);
}

TEST_CASE("layout: empty tensors share a border but stand nowhere else") {
  const auto u8 = dtype::u8;
  const auto f32 = dtype::f32;
  CHECK_FALSE(code_of({{"a", f32, {2, 0}, 0, 0}, {"b", f32, {0}, 0, 0}}, 0));
  CHECK_FALSE(code_of({{"a", u8, {4}, 0, 4},
                       {"x", u8, {0}, 4, 4},
                       {"y", u8, {0}, 4, 4},
                       {"b", u8, {2}, 4, 6},
                       {"z", u8, {0}, 6, 6}},
                      6));
  CHECK(code_of({{"a", u8, {4}, 0, 4}, {"x", u8, {0}, 2, 2}}, 4) == errc::invalid_offsets);
  CHECK(code_of({{"a", u8, {4}, 0, 4}, {"x", u8, {0}, 5, 5}}, 4) == errc::invalid_offsets);
}

TEST_CASE("layout: a scalar is one element") {
  CHECK_FALSE(code_of({{"a", dtype::f32, {}, 0, 4}}, 4));
  CHECK(code_of({{"a", dtype::f32, {}, 0, 0}}, 0) == errc::wrong_tensor_bytes);
}

TEST_CASE("layout: shape and offsets must agree to the byte") {
  CHECK(code_of({{"a", dtype::i32, {2, 2}, 0, 4}}, 4) == errc::wrong_tensor_bytes);
  CHECK(code_of({{"a", dtype::i32, {2, 2}, 0, 17}}, 17) == errc::wrong_tensor_bytes);
  CHECK(code_of({{"a", dtype::i32, {0, 2}, 0, 4}}, 4) == errc::wrong_tensor_bytes);
}

TEST_CASE("layout: an error shows a shape, of a long one its beginning") {
  const auto cause_of = [](const std::vector<std::uint64_t>& shape) {
    return laid_out({{"a", dtype::u8, shape, 0, 2}}, 2).error().cause();
  };
  CHECK(cause_of({1, 2, 3}).find("U8 [1, 2, 3]") != std::string::npos);
  CHECK(cause_of({1, 1, 1, 1, 1, 1, 1, 9}).find("U8 [1, 1, 1, 1, 1, 1, 1, 9]") !=
        std::string::npos);
  CHECK(cause_of({1, 1, 1, 1, 1, 1, 1, 1, 9}).find("U8 [1, 1, 1, 1, 1, 1, 1, 1, ...]") !=
        std::string::npos);
}

TEST_CASE("layout: sub-byte tensors end on a byte as a whole, not in each row") {
  CHECK_FALSE(code_of({{"a", dtype::f4, {2, 3}, 0, 3}}, 3));
  CHECK_FALSE(code_of({{"a", dtype::f6_e2m3, {4}, 0, 3}}, 3));
  CHECK_FALSE(code_of({{"a", dtype::f6_e3m2, {2, 2}, 0, 3}}, 3));
  CHECK_FALSE(code_of({{"a", dtype::f4, {3, 0}, 0, 0}}, 0));
  CHECK(code_of({{"a", dtype::f4, {1, 3}, 0, 2}}, 2) == errc::fractional_bytes);
  CHECK(code_of({{"a", dtype::f4, {}, 0, 1}}, 1) == errc::fractional_bytes);
  CHECK(code_of({{"a", dtype::f6_e2m3, {2}, 0, 2}}, 2) == errc::fractional_bytes);
  CHECK(code_of({{"a", dtype::f6_e3m2, {6}, 0, 5}}, 5) == errc::fractional_bytes);
  CHECK(code_of({{"a", dtype::f4, {1, 2}, 0, 2}}, 2) == errc::wrong_tensor_bytes);
}

TEST_CASE("layout: a product that does not fit in 64 bits is size_overflow") {
  CHECK(code_of({{"a", dtype::i32, {2, UINT64_MAX - 1}, 0, 16}}, 16) == errc::size_overflow);
  CHECK(code_of({{"a", dtype::i32, {2, two_to_63 - 1}, 0, 16}}, 16) == errc::size_overflow);
  CHECK(code_of({{"a", dtype::f32, {two_to_63, 2}, 0, 0}}, 0) == errc::size_overflow);
  CHECK(code_of({{"a", dtype::u8, {UINT64_MAX}, 0, 0}}, 0) == errc::size_overflow);
  // (2^62 + 1) * 4 is 4 modulo 2^64, which would be 16 bytes of F32.
  CHECK(code_of({{"a", dtype::f32, {(two_to_63 >> 1) + 1, 4}, 0, 16}}, 16) == errc::size_overflow);
}

TEST_CASE("layout: an overflow that a zero undoes depends on the order in the reference alone") {
  const std::vector<stated> zero_first = {{"a", dtype::u8, {0, two_to_63, two_to_63}, 0, 0}};
  const std::vector<stated> zero_last = {{"a", dtype::u8, {two_to_63, 2, 0}, 0, 0}};
  CHECK_FALSE(code_of(zero_first, 0, strictness::reference));
  CHECK(code_of(zero_last, 0, strictness::reference) == errc::size_overflow);
  CHECK(code_of(zero_first, 0, strictness::strict) == errc::size_overflow);
  CHECK(code_of(zero_last, 0, strictness::strict) == errc::size_overflow);
  CHECK_FALSE(code_of({{"a", dtype::u8, {0, two_to_63}, 0, 0}}, 0));
}

TEST_CASE("layout: the data ends where the file ends") {
  const std::vector<stated> tensors = {{"a", dtype::u8, {4}, 0, 4}, {"b", dtype::u8, {4}, 4, 8}};
  CHECK_FALSE(code_of(tensors, 8));
  CHECK(code_of(tensors, 9) == errc::trailing_bytes);
  CHECK(code_of(tensors, 7) == errc::extent_outside_file);
  CHECK(code_of({}, 1) == errc::trailing_bytes);
  CHECK_FALSE(code_of({}, 0));

  const auto cut = laid_out(tensors, 2);
  REQUIRE_FALSE(cut.has_value());
  CHECK(message_of(cut.error()) ==
        "tensor 'a', byte 0: its bytes end at 104 but the file ends at 102");
}

TEST_CASE("layout: sizes that add up to 2^64 - 1 are refused and not wrapped") {
  // Nine extents without gaps. The last extent ends at 2^64 - 1, and the data begins at 100.
  std::vector<stated> tensors;
  const std::uint64_t step = (std::uint64_t{1} << 61) - 1;  // The largest count of bytes as bits.
  std::uint64_t begin = 0;
  for (int i = 0; i < 9; ++i) {
    const std::uint64_t bytes = i < 8 ? step : UINT64_MAX - begin;
    tensors.push_back({"t" + std::to_string(i), dtype::u8, {bytes}, begin, begin + bytes});
    begin += bytes;
  }
  CHECK(begin == UINT64_MAX);
  CHECK(code_of(tensors, 16, strictness::strict) == errc::size_overflow);
  CHECK(code_of(tensors, 16, strictness::reference) == errc::size_overflow);
}

TEST_CASE("layout: of several faults the one that the reference finds first is found") {
  // Precedence of errors: a gap, then a wrong size, then a wrong end of the file.
  CHECK(code_of({{"a", dtype::i32, {2}, 1, 2}}, 99) == errc::invalid_offsets);
  CHECK(code_of({{"a", dtype::i32, {2}, 0, 2}, {"b", dtype::i32, {2}, 5, 13}}, 99) ==
        errc::wrong_tensor_bytes);
  CHECK(code_of({{"a", dtype::f4, {1}, 0, 7}}, 99) == errc::fractional_bytes);
}

TEST_CASE("layout: messages have the numbers") {
  const auto wrong = laid_out({{"wte.weight", dtype::f32, {2, 3}, 0, 4096}}, 4096);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(message_of(wrong.error()) ==
        "tensor 'wte.weight', byte 0: F32 [2, 3] needs 24 bytes but its data_offsets [0 : 4,096] "
        "give it 4,096");
}
