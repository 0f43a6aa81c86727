// SPDX-License-Identifier: Apache-2.0

// The CRC-32C of joined bytes from the CRC-32C of the parts.

#include "base/crc32c_join.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <ringload/verify.hpp>
#include <span>
#include <vector>

using namespace ringload;

TEST_CASE("crc32c_join: the CRC of joined parts is the CRC of their bytes") {
  // RFC 3720, B.4: 32 zero bytes. Each half has 16 zero bytes.
  const std::vector<std::byte> zeros(16);
  const std::uint32_t half = crc32c(zeros);
  CHECK(join_crc32c(half, half, 16) == 0x8A9136AA);
  CHECK(crc32c_join(16)(half, half) == 0x8A9136AA);

  std::vector<std::byte> bytes(70'000);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  for (const std::size_t first : {0UL, 1UL, 3UL, 1024UL, 50'000UL}) {
    for (const std::size_t second : {0UL, 1UL, 2UL, 255UL, 256UL, 1024UL, 20'000UL}) {
      CAPTURE(first);
      CAPTURE(second);
      const auto joined = std::span(bytes).first(first + second);
      const std::uint32_t first_crc = crc32c(joined.first(first));
      const std::uint32_t second_crc = crc32c(joined.subspan(first));
      CHECK(join_crc32c(first_crc, second_crc, second) == crc32c(joined));
      CHECK(crc32c_join(second)(first_crc, second_crc) == crc32c(joined));
    }
  }
}
