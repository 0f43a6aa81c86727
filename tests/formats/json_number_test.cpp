// SPDX-License-Identifier: Apache-2.0
#include "formats/text/json_number.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using namespace ringload;

TEST_CASE("json_unsigned: takes digits alone, up to 2^64 - 1") {
  CHECK(json_unsigned("0") == 0);
  CHECK(json_unsigned("1234") == 1234);
  CHECK(json_unsigned("18446744073709551615") == UINT64_MAX);
  CHECK_FALSE(json_unsigned("18446744073709551616"));
  CHECK_FALSE(json_unsigned("99999999999999999999"));
  CHECK_FALSE(json_unsigned(std::string(400, '9')));
}

TEST_CASE("json_unsigned: refuses whole numbers that are written as anything else") {
  for (const char* text : {"-0", "-1", "1.0", "1e0", "1E2", "0.0"}) {
    CAPTURE(text);
    CHECK_FALSE(json_unsigned(text));
  }
}

TEST_CASE("json_exceeds_double: finds the first number that becomes infinite") {
  CHECK_FALSE(json_exceeds_double("1.7976931348623157e308"));
  CHECK_FALSE(json_exceeds_double("1.7976931348623158e308"));
  CHECK(json_exceeds_double("1.7976931348623159e308"));
  CHECK(json_exceeds_double("-1.8e308"));
  CHECK(json_exceeds_double("1e309"));
  CHECK(json_exceeds_double("1e999"));
  CHECK(json_exceeds_double("1e99999999999999999999"));
  CHECK(json_exceeds_double("1" + std::string(309, '0')));
  CHECK_FALSE(json_exceeds_double("1" + std::string(308, '0')));
}

TEST_CASE("json_exceeds_double: lets small numbers and zero pass whatever their exponent") {
  CHECK_FALSE(json_exceeds_double("1e-999"));
  CHECK_FALSE(json_exceeds_double("0e999"));
  CHECK_FALSE(json_exceeds_double("-0.000e999"));
  CHECK_FALSE(json_exceeds_double("0." + std::string(400, '0') + "1e500"));
  CHECK_FALSE(json_exceeds_double(std::string(30, '9')));
}

TEST_CASE("json_truncated: reads the whole part of any way to write a number") {
  CHECK(json_truncated("1500") == 1500);
  CHECK(json_truncated("1.5e3") == 1500);
  CHECK(json_truncated("1.2345e2") == 123);
  CHECK(json_truncated("0.00123e5") == 123);
  CHECK(json_truncated("120e-1") == 12);
  CHECK(json_truncated("16060522496.0") == 16060522496);
  CHECK(json_truncated("0.9") == 0);
  CHECK(json_truncated("0e5") == 0);
  CHECK(json_truncated("18446744073709551615.9") == UINT64_MAX);
}

TEST_CASE("json_truncated: gives nothing for what no size can be") {
  CHECK_FALSE(json_truncated("18446744073709551616"));
  CHECK_FALSE(json_truncated("1e20"));
  CHECK_FALSE(json_truncated("1e300"));
  CHECK_FALSE(json_truncated("-1"));
}
