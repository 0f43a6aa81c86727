// SPDX-License-Identifier: Apache-2.0

// The encodings of deltas with an index, without files.

#include "delta/byte_change.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "formats/codec/zstd_frame.hpp"

using namespace ringload;

namespace {

using bytes = std::vector<std::byte>;

bytes frame_of(const bytes& contents) {
  bytes frame;
  auto encoder = zstd_frame_encoder::make(1, true);
  REQUIRE(encoder.has_value());
  REQUIRE((*encoder)->encode(contents, frame).has_value());
  return frame;
}

bytes numbers(const std::vector<std::uint32_t>& list, const std::string& values = {}) {
  const auto stored = std::as_bytes(std::span(list));
  bytes out(stored.begin(), stored.end());
  for (const char value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

bytes applied(bytes tensor, const byte_change& change) {
  REQUIRE(check_change(change.view()).has_value());
  change_cursor(change.view()).apply(tensor);
  return tensor;
}

bool is_refused(const result<byte_change>& change) {
  return !change && change.error().code == errc::malformed_stream;
}

}  // namespace

TEST_CASE("byte_change: random versions of each size and density") {
  std::mt19937_64 random(7);
  for (const std::size_t size : {0U, 1U, 31U, 32U, 33U, 127U, 5000U, 131'072U, 300'001U}) {
    for (const unsigned permille : {1U, 20U, 300U, 1000U}) {
      bytes before(size);
      for (std::byte& byte : before) byte = static_cast<std::byte>(random());
      bytes after = before;
      std::uint64_t changed = 0;
      for (std::byte& byte : after) {
        if (random() % 1000 >= permille) continue;
        byte ^= std::byte{1};
        ++changed;
      }
      CAPTURE(size);
      CAPTURE(permille);
      const auto exclusive_or = decode_xor(frame_of(encode_xor(before, after)), size);
      REQUIRE(exclusive_or.has_value());
      CHECK(applied(before, *exclusive_or) == after);
      CHECK(applied(after, *exclusive_or) == before);
      const auto overwrite =
          decode_overwrite(frame_of(encode_overwrite(before, after, changed)), before);
      REQUIRE(overwrite.has_value());
      CHECK(applied(before, *overwrite) == after);
      CHECK(applied(after, *overwrite) == before);
    }
  }
}

TEST_CASE("byte_change: a frame of another size is refused") {
  const bytes frame = frame_of(bytes(1000, std::byte{1}));
  CHECK(decode_xor(frame, 1000).has_value());
  CHECK(is_refused(decode_xor(frame, 999)));
  CHECK(is_refused(decode_xor(frame, 1001)));
  CHECK(is_refused(decode_xor(std::span(frame).first(frame.size() - 1), 1000)));
  CHECK(is_refused(decode_xor({}, 1000)));
  bytes longer = frame;
  longer.push_back(std::byte{7});
  CHECK(is_refused(decode_xor(longer, 1000)));
  const bytes unchanged = frame_of(bytes(1000));
  CHECK(is_refused(decode_xor(unchanged, 999)));
  CHECK(is_refused(decode_xor(unchanged, 1'000'000'000'000)));
}

TEST_CASE("byte_change: positions must be ascending and inside of the tensor") {
  const bytes before(10, std::byte{'a'});
  const auto decoded = [&](const std::vector<std::uint32_t>& list, const std::string& values) {
    return decode_overwrite(frame_of(numbers(list, values)), before);
  };
  const auto change = decoded({2, 3, 9}, "xy");
  REQUIRE(change.has_value());
  const bytes after = applied(before, *change);
  CHECK(after[3] == std::byte{'x'});
  CHECK(after[9] == std::byte{'y'});
  CHECK(decoded({0}, "").has_value());
  CHECK(is_refused(decoded({2, 9, 3}, "xy")));
  CHECK(is_refused(decoded({2, 3, 3}, "xy")));
  CHECK(is_refused(decoded({2, 3, 10}, "xy")));
  CHECK(is_refused(decoded({2, 3, 9}, "x")));
  CHECK(is_refused(decoded({2, 3, 9}, "xyz")));
  CHECK(is_refused(decoded({0xFFFFFFFF, 3}, "x")));
  CHECK(is_refused(decoded({}, "")));
}
