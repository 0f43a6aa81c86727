// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <ringload/ringload.hpp>
#include <string>

using namespace ringload;

TEST_CASE("attribute: a value is kept as the CBOR that it becomes") {
  CHECK(attribute().encoded() == "\xF6");
  CHECK(attribute("ab").encoded() ==
        "\x62"
        "ab");
  CHECK(attribute(true).encoded() == "\xF5");
  CHECK(attribute(0.5).encoded() == std::string("\xF9\x38\x00", 3));
  CHECK(attribute(5).encoded() == "\x05");
  CHECK(attribute(-5).encoded() == "\x24");
  CHECK(attribute(std::uint64_t{UINT64_MAX}).encoded() == "\x1B" + std::string(8, '\xFF'));
  CHECK(attribute(INT64_MIN).encoded() == "\x3B\x7F" + std::string(7, '\xFF'));
  CHECK_THROWS_AS(attribute("\xFF"), error);
}

TEST_CASE("attribute: JSON, with integers as such") {
  CHECK(attribute::json(R"({"b":[1,-1,1.0,null],"a":{"x":false}})").encoded() ==
        std::string("\xA2\x61"
                    "b\x84\x01\x20\xF9\x3C\x00\xF6\x61"
                    "a\xA1\x61x\xF4",
                    16));
  CHECK(attribute::json("18446744073709551615").encoded() == "\x1B" + std::string(8, '\xFF'));
  CHECK(attribute::json("-9223372036854775808").encoded() == "\x3B\x7F" + std::string(7, '\xFF'));
  CHECK(attribute::json("-9223372036854775809").encoded() == "\xFA\xDF" + std::string(3, '\0'));
  CHECK(attribute::json(" \"x\" ").encoded() == "\x61x");
  CHECK_THROWS_AS(attribute::json("{"), error);
  CHECK_THROWS_AS(attribute::json("1 2"), error);
  CHECK_THROWS_AS(attribute::json(std::string(100, '[') + std::string(100, ']')), error);
}

TEST_CASE("attribute: CBOR must be one whole value") {
  CHECK(attribute::cbor("\x05").encoded() == "\x05");
  CHECK_THROWS_AS(attribute::cbor(""), error);
  CHECK_THROWS_AS(attribute::cbor("\x05\x05"), error);
  CHECK_THROWS_AS(attribute::cbor("\x62"
                                  "a"),
                  error);
}
