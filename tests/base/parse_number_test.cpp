// SPDX-License-Identifier: Apache-2.0
#include "base/parse_number.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace ringload;

TEST_CASE("parse_number: the whole text is one number within its type") {
  CHECK(parse_number<std::uint64_t>("18446744073709551615") == ~std::uint64_t{0});
  CHECK(parse_number<int>("-12") == -12);
  CHECK(parse_number<unsigned>("755", 8) == 0755);
  CHECK(parse_number<std::uint16_t>("65535") == 65535);
}

TEST_CASE("parse_number: any other text is no number") {
  for (const char* const text : {"", " 1", "1 ", "+1", "0x1", "1,000", "1.0", "-", "-1", "one"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number<std::uint64_t>(text));
  }
  CHECK_FALSE(parse_number<std::uint16_t>("65536"));
  CHECK_FALSE(parse_number<std::uint64_t>("18446744073709551616"));
}
