// SPDX-License-Identifier: Apache-2.0
#include "core/dequantize.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "formats/gguf_types.hpp"

using namespace ringload;

namespace {

std::vector<float> floats_of(block_type type, const std::string& block) {
  std::vector<float> out(size_of(type).elements);
  dequantize(type, reinterpret_cast<const std::byte*>(block.data()),
             reinterpret_cast<std::byte*>(out.data()), 1, float_type::f32);
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

TEST_CASE("dequantize: 0 times a negative scale is -0, and infinity times 0 one NaN") {
  std::string block("\x00\xB8", 2);  // -0.5
  block += std::string(16, '\x88');
  const auto negative = floats_of(block_type::q4_0, block);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &negative[3], sizeof bits);
  CHECK(bits == 0x80000000U);
  block[1] = '\x7C';  // Infinity.
  const auto none = floats_of(block_type::q4_0, block);
  std::memcpy(&bits, &none[3], sizeof bits);
  CHECK(bits == 0x7FC00000U);
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
