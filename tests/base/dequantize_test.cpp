// SPDX-License-Identifier: Apache-2.0
#include "base/numeric/dequantize.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "formats/gguf/gguf_types.hpp"

using namespace ringload;

namespace {

std::vector<float> floats_of(block_type type, const std::string& block) {
  std::vector<float> out(size_of(type).elements);
  dequantize(type, reinterpret_cast<const std::byte*>(block.data()),
             reinterpret_cast<std::byte*>(out.data()), 1, float_type::f32);
  return out;
}

std::vector<std::uint32_t> bits_of(block_type type, const std::string& block) {
  const auto floats = floats_of(type, block);
  std::vector<std::uint32_t> out(floats.size());
  std::memcpy(out.data(), floats.data(), floats.size() * sizeof(float));
  return out;
}

}  // namespace

TEST_CASE("dequantize: blocks have the sizes that GGUF gives their types") {
  unsigned found = 0;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const gguf_type* const listed = gguf_type_of(id);
    if (listed == nullptr) continue;
    const auto type = block_type_named(listed->name);
    if (!type) continue;
    CAPTURE(listed->name);
    ++found;
    CHECK(size_of(*type).elements == listed->block_elements);
    CHECK(size_of(*type).bytes == listed->block_bytes);
  }
  CHECK(found == block_type_count);
  CHECK_FALSE(block_type_named("q8_1").has_value());
  CHECK_FALSE(block_type_named("").has_value());
}

TEST_CASE("dequantize: a block by hand") {
  // The scale is 0.5. The low half of byte i is element i, the high half element i + 16; 8 is 0.
  std::string block("\x00\x38", 2);
  for (int i = 0; i < 16; ++i) block += static_cast<char>(i | (15 - i) << 4);
  const auto made = floats_of(block_type::q4_0, block);
  for (int i = 0; i < 16; ++i) {
    CHECK(made[static_cast<std::size_t>(i)] == 0.5F * static_cast<float>(i - 8));
    CHECK(made[static_cast<std::size_t>(i + 16)] == 0.5F * static_cast<float>(7 - i));
  }
}

TEST_CASE("dequantize: 0 times a negative scale is -0") {
  const std::string block = std::string("\x00\xB8", 2) + std::string(16, '\x88');  // -0.5
  CHECK(bits_of(block_type::q4_0, block)[3] == 0x80000000U);
}

// The results of the package gguf on x86-64.
TEST_CASE("dequantize: a NaN is the scale's, then the minimum's, then that of numbers") {
  const std::string zeros_and_ones(16, '\x01');  // 16 times 1, then 16 times 0.
  const auto q4_1 = [&](std::string_view scale, std::string_view minimum) {
    const auto made =
        bits_of(block_type::q4_1, std::string(scale) + std::string(minimum) + zeros_and_ones);
    return std::pair{made[3], made[20]};
  };
  using two = std::pair<std::uint32_t, std::uint32_t>;
  constexpr std::string_view one("\x00\x3C", 2);
  constexpr std::string_view infinity("\x00\x7C", 2);
  constexpr std::string_view minus_infinity("\x00\xFC", 2);
  constexpr std::string_view signalling("\x05\xFC", 2);
  constexpr std::string_view quiet("\x80\x7E", 2);
  CHECK(q4_1(signalling, one) == two{0xFFC0A000U, 0xFFC0A000U});
  CHECK(q4_1(signalling, quiet) == two{0xFFC0A000U, 0xFFC0A000U});
  CHECK(q4_1(quiet, infinity) == two{0x7FD00000U, 0x7FD00000U});
  CHECK(q4_1(one, quiet) == two{0x7FD00000U, 0x7FD00000U});
  CHECK(q4_1(infinity, quiet) == two{0x7FD00000U, 0xFFC00000U});
  CHECK(q4_1(infinity, one) == two{0x7F800000U, 0xFFC00000U});
  CHECK(q4_1(infinity, minus_infinity) == two{0xFFC00000U, 0xFFC00000U});
  CHECK(q4_1(one, minus_infinity) == two{0xFF800000U, 0xFF800000U});

  // Infinity times the scale 0 of the run is NaN. A minimum that is NaN keeps its sign, although it
  // is subtracted.
  const auto q2_k = [](char scales, std::string_view scale, std::string_view minimum) {
    return bits_of(block_type::q2_k, std::string(16, scales) + std::string(64, '\x01') +
                                         std::string(scale) + std::string(minimum))[3];
  };
  CHECK(q2_k('\x10', infinity, quiet) == 0xFFC00000U);
  CHECK(q2_k('\x01', infinity, quiet) == 0x7FD00000U);
  CHECK(q2_k('\x01', one, infinity) == 0xFFC00000U);
  CHECK(q2_k('\x11', signalling, infinity) == 0xFFC0A000U);
  CHECK(q2_k('\x11', one, signalling) == 0xFFC0A000U);
}

TEST_CASE("dequantize: of a NaN f16 and bf16 have the sign") {
  for (const auto& [high, f16, bf16] :
       {std::tuple{'\x7F', 0x7E00U, 0x7FC0U}, std::tuple{'\xFF', 0xFE00U, 0xFFC0U}}) {
    const std::string block = std::string("\x01") + high + std::string(16, '\x19');
    for (const auto& [to, wanted] : {std::pair{float_type::f16, f16}, {float_type::bf16, bf16}}) {
      std::vector<std::uint16_t> out(32);
      dequantize(block_type::q4_0, reinterpret_cast<const std::byte*>(block.data()),
                 reinterpret_cast<std::byte*>(out.data()), 1, to);
      CHECK(out[7] == wanted);
    }
  }
}

TEST_CASE("dequantize: neither side need be aligned, and nothing is written past the end") {
  const std::string block = std::string("\x00\x3C", 2) + std::string(16, '\x19');
  const auto wanted = floats_of(block_type::q4_0, block);
  const std::string moved = "x" + block + block;
  std::string out(1 + 2 * 32 * sizeof(float) + 1, '\x55');
  dequantize(block_type::q4_0, reinterpret_cast<const std::byte*>(moved.data() + 1),
             reinterpret_cast<std::byte*>(out.data() + 1), 2, float_type::f32);
  CHECK(std::memcmp(out.data() + 1, wanted.data(), 32 * sizeof(float)) == 0);
  CHECK(std::memcmp(out.data() + 1 + 128, wanted.data(), 32 * sizeof(float)) == 0);
  CHECK(out.front() == '\x55');
  CHECK(out.back() == '\x55');
}

TEST_CASE("dequantize: a conversion knows the sizes of each block type") {
  for (unsigned i = 0; i < block_type_count; ++i) {
    const auto type = static_cast<block_type>(i);
    const conversion as = {kind_of(type), element_kind::bf16};
    CHECK(block_of(kind_of(type)) == type);
    CHECK(as.from_bytes() == size_of(type).bytes);
    CHECK(as.to_bytes() == size_of(type).elements * 2);
  }
}
