// SPDX-License-Identifier: Apache-2.0

// The difference of two versions of a tensor, as bytes.

#include "delta/delta_code.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace ringload;

namespace {

using buffer = std::vector<std::byte>;

buffer bytes_of(std::initializer_list<int> values) {
  buffer out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

buffer random_buffer(std::mt19937_64& random, std::size_t size) {
  buffer out(size);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random());
  return out;
}

// Applies the change in regions of `step` elements.
void apply(const change_view& change, buffer& tensor_bytes, std::size_t step) {
  change_cursor cursor(change);
  const std::size_t region_bytes = step * change.width;
  for (std::size_t offset = 0; offset < tensor_bytes.size(); offset += region_bytes) {
    const std::size_t size = std::min(region_bytes, tensor_bytes.size() - offset);
    cursor.apply(std::span(tensor_bytes).subspan(offset, size));
  }
}

std::string cause_of(const change_view& change) {
  const auto status = check_change(change);
  return status ? "" : message_of(status.error());
}

}  // namespace

TEST_CASE("delta code: a sparse change has the gap and the exclusive or of each changed element") {
  const buffer before = bytes_of({1, 0, 2, 0, 3, 0, 4, 0});
  const buffer after = bytes_of({1, 0, 3, 2, 3, 0, 4, 128});
  REQUIRE(count_changed(before, after, 2) == 2);
  const sparse_change change = encode_sparse(before, after, 2, 2);
  CHECK(change.gaps == bytes_of({1, 1}));
  CHECK(change.planes == bytes_of({1, 0, 2, 128}));
}

TEST_CASE("delta code: a gap of 128 elements takes two bytes") {
  buffer before(200);
  buffer after = before;
  after[128] = std::byte{1};
  after[199] = std::byte{7};
  const sparse_change change = encode_sparse(before, after, 1, 2);
  CHECK(change.gaps == bytes_of({0x80, 0x01, 70}));
  const change_view view = {true, 1, 200, change.gaps, change.planes};
  REQUIRE(check_change(view).has_value());
  apply(view, before, 200);
  CHECK(before == after);
}

TEST_CASE("delta code: a dense change has the planes of all elements") {
  const buffer before = bytes_of({1, 2, 3, 4});
  const buffer after = bytes_of({1, 3, 7, 4});
  CHECK(encode_dense(before, after, 2) == bytes_of({0, 4, 1, 0}));
}

TEST_CASE("delta code: a change leads from the old to the new version, and back") {
  std::mt19937_64 random(20261124);
  for (const std::uint32_t width : {1U, 2U, 4U, 8U}) {
    for (const std::size_t elements : {0U, 1U, 63U, 64U, 65U, 1000U, 4096U}) {
      for (const unsigned percent : {0U, 2U, 50U, 100U}) {
        const buffer before = random_buffer(random, elements * width);
        buffer after = before;
        for (std::byte& byte : after) {
          if (random() % 100 < percent) byte = static_cast<std::byte>(random());
        }
        std::uint64_t expected = 0;
        for (std::size_t i = 0; i < after.size(); i += width) {
          if (std::memcmp(&before[i], &after[i], width) != 0) ++expected;
        }
        const std::uint64_t changed = count_changed(before, after, width);
        CHECK(changed == expected);
        const sparse_change sparse = encode_sparse(before, after, width, changed);
        const buffer planes = encode_dense(before, after, width);
        for (const change_view& view :
             {change_view{true, width, elements, sparse.gaps, sparse.planes},
              change_view{false, width, elements, {}, planes}}) {
          REQUIRE(check_change(view).has_value());
          for (const std::size_t step : {1U, 7U, 64U, 5000U}) {
            buffer tensor_bytes = before;
            apply(view, tensor_bytes, step);
            CHECK(tensor_bytes == after);
            apply(view, tensor_bytes, step);
            CHECK(tensor_bytes == before);
          }
        }
      }
    }
  }
}

TEST_CASE("delta code: a change that does not fit its tensor is refused with the wrong value") {
  const buffer planes = bytes_of({1, 2, 3, 4});
  const buffer gaps = bytes_of({0, 1, 0, 2});
  CHECK(cause_of({true, 1, 7, gaps, planes}).empty());
  CHECK(cause_of({true, 1, 6, gaps, planes}).find("outside the 6 elements") != std::string::npos);
  CHECK(cause_of({true, 1, 0, gaps, planes}).find("outside the 0 elements") != std::string::npos);
  CHECK(cause_of({true, 8, 7, gaps, planes}).find("multiple of 8") != std::string::npos);
  CHECK(cause_of({true, 2, 7, gaps, planes}).find("4 gaps and 2 changed") != std::string::npos);
  CHECK(cause_of({false, 1, 5, {}, planes}).find("expected 5") != std::string::npos);
  CHECK(cause_of({false, 1, 4, {}, planes}).empty());
  CHECK(cause_of({true, 1, 7, bytes_of({0x80}), {}}) == "the last gap is incomplete");
}

TEST_CASE("delta code: gaps of any lengths are accepted if and only if they fit the tensor") {
  std::mt19937_64 random(20261126);
  const std::uint64_t values[] = {0, 1, 49, 126, 127, 128, 129, 16'383, 16'384, 16'385, 3'000'000};
  for (int round = 0; round < 3000; ++round) {
    buffer gaps;
    std::uint64_t end = 0;
    const std::size_t count = 1 + random() % 40;
    const std::size_t kinds = random() % 2 == 0 ? 8 : std::size(values);
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t gap = values[random() % kinds];
      end += gap + 1;
      for (; gap >= 128; gap >>= 7) gaps.push_back(static_cast<std::byte>(gap | 0x80));
      gaps.push_back(static_cast<std::byte>(gap));
    }
    const buffer planes(count);
    CHECK(cause_of({true, 1, end, gaps, planes}).empty());
    CHECK(cause_of({true, 1, end + 1, gaps, planes}).empty());
    CHECK(cause_of({true, 1, end - 1, gaps, planes}).find("outside") != std::string::npos);
    CHECK(cause_of({true, 1, end, gaps, buffer(count + 1)}).find("expected equal") !=
          std::string::npos);
    buffer tensor_bytes(end < 100'000 ? end : 0);
    if (tensor_bytes.empty()) continue;
    const buffer ones(count, std::byte{1});
    apply({true, 1, end, gaps, ones}, tensor_bytes, 1 + random() % 5000);
    CHECK(static_cast<std::size_t>(std::ranges::count(tensor_bytes, std::byte{1})) == count);
    CHECK(tensor_bytes.back() == std::byte{1});
  }
}

TEST_CASE("delta code: a gap of more than 64 bits is refused, the largest gap is outside") {
  buffer gaps(9, std::byte{0xFF});
  gaps.push_back(std::byte{0x01});
  const buffer planes = bytes_of({1});
  CHECK(cause_of({true, 1, ~std::uint64_t{0}, gaps, planes}).find("outside") != std::string::npos);
  gaps.back() = std::byte{0x02};
  CHECK(cause_of({true, 1, ~std::uint64_t{0}, gaps, planes}).find("64 bits") != std::string::npos);
  gaps.back() = std::byte{0x80};
  gaps.push_back(std::byte{0x00});
  CHECK(cause_of({true, 1, ~std::uint64_t{0}, gaps, planes}).find("64 bits") != std::string::npos);
}

TEST_CASE("delta code: the width is that of the dtype's elements") {
  CHECK(delta_width(dtype::u8) == 1);
  CHECK(delta_width(dtype::bf16) == 2);
  CHECK(delta_width(dtype::f32) == 4);
  CHECK(delta_width(dtype::f64) == 8);
  CHECK(delta_width(dtype::c64) == 8);
  CHECK(delta_width(dtype::c128) == 8);
  CHECK(delta_width(dtype::f8_e4m3fn) == 1);
}

TEST_CASE("delta code: the positions of a sparse difference are those of each tile") {
  // 10 elements in tiles of 4. The elements 1, 3, 4 and 9 change.
  const buffer before = bytes_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const buffer after = bytes_of({0, 5, 0, 6, 7, 0, 0, 0, 0, 8});
  const sparse_change encoded = encode_sparse(before, after, 1, 4);
  const change_view change = {true, 1, 10, encoded.gaps, encoded.planes};
  const tiled_positions tiled = positions_in_tiles(change, 4);
  CHECK(tiled.positions == std::vector<std::uint16_t>{1, 3, 0, 1});
  CHECK(tiled.tile_begins == std::vector<std::uint32_t>{0, 2, 3, 4});
}

TEST_CASE("delta code: tiles without a changed element have no positions") {
  std::vector<std::byte> gaps;
  append_gap(gaps, 200'000);  // The only changed element. Its tile has the index 3.
  const buffer planes = bytes_of({1});
  const tiled_positions tiled = positions_in_tiles({true, 1, 300'000, gaps, planes}, 65'536);
  CHECK(tiled.positions == std::vector<std::uint16_t>{200'000 - 3 * 65'536});
  CHECK(tiled.tile_begins == std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1});

  const tiled_positions none = positions_in_tiles({true, 1, 0, {}, {}}, 4);
  CHECK(none.positions.empty());
  CHECK(none.tile_begins == std::vector<std::uint32_t>{0});
}
