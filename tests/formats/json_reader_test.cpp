// SPDX-License-Identifier: Apache-2.0
#include "formats/text/json_reader.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

using namespace ringload;
using namespace std::string_view_literals;

namespace {

constexpr unsigned deep = 127;

bool accepts(std::string_view text) {
  json_reader in(text);
  return in.skip_value(deep) && in.end();
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string string_in(std::string_view text) {
  json_reader in(text);
  std::string_view value;
  REQUIRE(in.string(value));
  return std::string(value);
}

}  // namespace

TEST_CASE("json_reader: accepts what the standard allows") {
  for (const auto text :
       {"{}"sv, "[]"sv, "\t\n\r {} \t\n\r"sv, R"({"a":[1,2,{"b":null}],"c":true,"d":false})"sv,
        R"([-0,-1,0.5,1e5,1E+5,1e-5,-12.34e-56])"sv, R"(["\"\\\/\b\f\n\r\t\u0041"])"sv,
        "[\"\x7F\"]"sv, R"(["\ud83d\ude00"])"sv, R"({"":""})"sv, "0"sv}) {
    CAPTURE(text);
    CHECK(accepts(text));
  }
}

TEST_CASE("json_reader: refuses what only lenient readers allow") {
  for (const auto text : {""sv,
                          " "sv,
                          "{"sv,
                          "}"sv,
                          "["sv,
                          "[1"sv,
                          "[1,]"sv,
                          "[,1]"sv,
                          "[1 2]"sv,
                          R"({"a":1,})"sv,
                          R"({"a" 1})"sv,
                          R"({"a":})"sv,
                          R"({a:1})"sv,
                          R"({'a':1})"sv,
                          "{1:2}"sv,
                          "[}"sv,
                          "{]"sv,
                          "[NaN]"sv,
                          "[Infinity]"sv,
                          "[-Infinity]"sv,
                          "[+1]"sv,
                          "[01]"sv,
                          "[-01]"sv,
                          "[00]"sv,
                          "[1.]"sv,
                          "[.5]"sv,
                          "[1e]"sv,
                          "[1e+]"sv,
                          "[-]"sv,
                          "[0x10]"sv,
                          "[1_000]"sv,
                          "[tru]"sv,
                          "[True]"sv,
                          "[nul]"sv,
                          "[//c\n1]"sv,
                          "[/*c*/1]"sv,
                          "{}{}"sv,
                          "{} 1"sv,
                          "{}\0"sv,
                          "{}\f"sv,
                          "\xEF\xBB\xBF{}"sv,
                          "{}\xC2\xA0"sv,
                          "\v{}"sv,
                          R"(["\x"])"sv,
                          R"(["\u12"])"sv,
                          R"(["\u12g4"])"sv,
                          R"(["\'"])"sv,
                          "[\"\x1F\"]"sv,
                          "[\"a\nb\"]"sv,
                          "[\"\0\"]"sv,
                          "[\"a"sv,
                          "[\"a\\"sv,
                          R"(["\u004)"sv}) {
    CAPTURE(text);
    CHECK_FALSE(accepts(text));
  }
}

TEST_CASE("json_reader: refuses half of a surrogate pair") {
  for (const auto text :
       {R"(["\ud800"])"sv, R"(["\udc00"])"sv, R"(["\ud800\u0041"])"sv, R"(["\ud800\ud800"])"sv,
        R"(["\ud800x"])"sv, R"(["\udc00\ud800"])"sv, R"(["\ud800\n"])"sv}) {
    CAPTURE(text);
    CHECK_FALSE(accepts(text));
  }
}

TEST_CASE("json_reader: a number must fit in a double, whatever it is for") {
  CHECK(accepts("[" + std::string(30, '9') + "]"));
  CHECK(accepts("[1e308]"));
  CHECK(accepts("[1e-999]"));
  CHECK_FALSE(accepts("[1e999]"));
  CHECK_FALSE(accepts("[" + std::string(400, '9') + "]"));
}

TEST_CASE("json_reader: nesting ends where the caller says") {
  CHECK(accepts(nested(deep)));
  CHECK_FALSE(accepts(nested(deep + 1)));
  CHECK_FALSE(accepts(std::string(1'000'000, '[')));
  CHECK_FALSE(accepts(R"({"a":)" + nested(deep) + "}"));
}

TEST_CASE("json_reader: strings come out unescaped, and stay where they are") {
  CHECK(string_in(R"("plain")") == "plain");
  CHECK(string_in(R"("\u0074\u005F")") == "t_");
  CHECK(string_in(R"("a\"\\\/\b\f\n\r\tz")") == "a\"\\/\b\f\n\r\tz");
  CHECK(string_in(R"("\u0000")") == "\0"sv);
  CHECK(string_in(R"("\u00e9\u20ac\ud83d\ude00")") == "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");

  const std::string_view text = R"(["\u0061bc","plain","\u0064ef","\n"])";
  json_reader in(text);
  std::vector<std::string_view> all;
  REQUIRE(in.enter_array());
  while (in.next_item()) REQUIRE(in.string(all.emplace_back()));
  CHECK(all == std::vector<std::string_view>{"abc", "plain", "def", "\n"});
}

TEST_CASE("json_reader: an object is read as its caller asks") {
  const std::string_view text =
      R"({"n":18446744073709551615,"list":[],"none":null,"skip":{"a":[{}]}})";
  json_reader in(text);
  std::string_view key;
  std::uint64_t number = 0;
  REQUIRE(in.enter_object());
  REQUIRE(in.next_key(key));
  CHECK(key == "n");
  REQUIRE(in.unsigned_integer(number));
  CHECK(number == UINT64_MAX);
  REQUIRE(in.next_key(key));
  REQUIRE(in.enter_array());
  CHECK_FALSE(in.next_item());
  REQUIRE(in.next_key(key));
  CHECK(in.null());
  REQUIRE(in.next_key(key));
  CHECK(key == "skip");
  CHECK(in.skip_value(3));
  CHECK_FALSE(in.next_key(key));
  CHECK_FALSE(in.failed());
  CHECK(in.end());
}

TEST_CASE("json_reader: the first fault stays, with its byte and its cause") {
  const std::string_view text = R"({"a": 1.0})";
  json_reader in(text);
  std::string_view key;
  std::uint64_t number = 0;
  REQUIRE(in.enter_object());
  REQUIRE(in.next_key(key));
  CHECK_FALSE(in.unsigned_integer(number));
  CHECK(in.position() == 6);
  CHECK(in.cause() == "expected a whole number from 0 to 2^64 - 1 but found '1.0'");
  CHECK_FALSE(in.next_key(key));
  CHECK_FALSE(in.fail("something else"));
  CHECK(in.position() == 6);
  CHECK(in.failed());
}
