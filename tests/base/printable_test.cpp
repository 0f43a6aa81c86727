// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace ringload;
using namespace std::string_view_literals;

TEST_CASE("printable: ordinary names stay as they are") {
  CHECK(printable("model.layers.0.wte.weight") == "model.layers.0.wte.weight");
  CHECK(printable("gewicht.f\xC3\xBCr") == "gewicht.f\xC3\xBCr");
  CHECK(printable("") == "");
}

TEST_CASE("printable: what would break the line or hide is escaped") {
  CHECK(printable("a\nb\x1B[31m") == "a\\u000ab\\u001b[31m");
  CHECK(printable("a\0b"sv) == "a\\u0000b");
  CHECK(printable("\x7F\xC2\x85") == "\\u007f\\u0085");
  CHECK(printable("\xE2\x80\xA8") == "\\u2028");
  CHECK(printable("\xE2\x80\xAE") == "\\u202e");
  CHECK(printable("\xEF\xBB\xBF") == "\\ufeff");
}

TEST_CASE("printable: bytes that are not UTF-8 are escaped one by one") {
  CHECK(printable("a\xFF\xC3") == "a\\xff\\xc3");
}

TEST_CASE("printable: a long name is cut, and never inside a character") {
  CHECK(printable(std::string(100, 'x')) == std::string(100, 'x'));
  CHECK(printable(std::string(101, 'x')) == std::string(100, 'x') + "...");
  CHECK(printable("\xC3\xA9\xC3\xA9\xC3\xA9", 3) == "\xC3\xA9\xC3\xA9...");
}

TEST_CASE("has_control_character: knows C0, DEL and C1 but not their neighbours") {
  CHECK(has_control_character("a\x1F"));
  CHECK(has_control_character("\x7F"));
  CHECK(has_control_character("\xC2\x80"));
  CHECK(has_control_character("\xC2\x9F"));
  CHECK(has_control_character("a\0"sv));
  CHECK_FALSE(has_control_character(" ~\xC2\xA0\xC3\x80"));
  CHECK_FALSE(has_control_character(""));
}
