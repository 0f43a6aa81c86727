// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <ringload/verify.hpp>
#include <string>
#include <vector>

using namespace ringload;

namespace {

std::uint32_t crc_of(const std::string& text, std::uint32_t before = 0) {
  return crc32c(std::as_bytes(std::span(text)), before);
}

// By the definition, bit by bit.
std::uint32_t by_definition(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const std::byte b : bytes) {
    crc ^= static_cast<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

}  // namespace

TEST_CASE("crc32c: has the values that its standard lists") {
  CHECK(crc_of("") == 0);
  CHECK(crc_of("123456789") == 0xE3069283);
  // RFC 3720, B.4.
  CHECK(crc_of(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc_of(std::string(32, '\xFF')) == 0x62A8AB43);
}

TEST_CASE("crc32c: matches the definition for lengths around a lane's, at every alignment") {
  // Three lanes of 8,192 bytes are hashed at once, and words of 8 after them.
  std::vector<std::byte> bytes(2 * 3 * 8192 + 64);
  std::uint32_t state = 1;
  for (std::byte& b : bytes) {
    state = state * 1664525 + 1013904223;
    b = static_cast<std::byte>(state >> 24);
  }
  const std::span<const std::byte> all(bytes);
  for (const std::size_t about : {0U, 64U, 3U * 8192U, 2U * 3U * 8192U}) {
    for (std::size_t more = 0; more < 18; ++more) {
      const std::size_t length = about + more;
      const std::size_t begin = more % 9;
      CAPTURE(length);
      CHECK(crc32c(all.subspan(begin, length)) == by_definition(all.subspan(begin, length)));
    }
  }
}

TEST_CASE("crc32c: of two halves is that of the whole, wherever it is cut") {
  const std::string text = "the bytes of a tensor come in pieces";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    CHECK(crc_of(text.substr(cut), crc_of(text.substr(0, cut))) == crc_of(text));
  }
}
