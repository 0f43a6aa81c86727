// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <doctest/doctest.h>

#include <boost/json/parse.hpp>
#include <boost/json/string.hpp>
#include <limits>
#include <string>
#include <vector>

#include "json.hpp"

using ringload::tool::append_json;
using ringload::tool::columns;
using ringload::tool::json_object;
using ringload::tool::printable;
using ringload::tool::sum_line;
using ringload::tool::utf8_length;
using namespace std::string_literals;

namespace {

std::string json_of(const std::string& text) {
  std::string to;
  append_json(to, text);
  return to;
}

std::string read_back(const std::string& text) {
  const boost::json::value value = boost::json::parse(json_of(text));
  return std::string(value.as_string());
}

}  // namespace

TEST_CASE("utf8: the length of each character, and 0 for what is none") {
  CHECK(utf8_length("a") == 1);
  CHECK(utf8_length("\xc3\xa9") == 2);
  CHECK(utf8_length("\xe2\x82\xac") == 3);
  CHECK(utf8_length("\xf0\x9f\x9a\x80") == 4);
  CHECK(utf8_length("\xf4\x8f\xbf\xbf") == 4);  // U+10FFFF
  for (const char* text : {"", "\x80", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                           "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xff", "\xe2\x82"}) {
    CHECK(utf8_length(text) == 0);
  }
}

TEST_CASE("printable: one line, without terminal escapes") {
  CHECK(printable("wte.weight") == "wte.weight");
  CHECK(printable("a\\b") == "a\\b");
  CHECK(printable("a\nb\tc") == "a\\nb\\tc");
  CHECK(printable("\x1b[31m") == "\\x1b[31m");
  CHECK(printable("\xc2\x9b"s) == "\\xc2\\x9b");
  CHECK(printable("\xc3\xa9\xff") == "\xc3\xa9\\xff");
  CHECK(printable("\0"s) == "\\x00");
}

TEST_CASE("sum line: a plain name is unchanged, two spaces after the digest") {
  CHECK(sum_line("00ff", "a b.c") == "00ff  a b.c\n");
  CHECK(sum_line("00ff", "") == "00ff  \n");
}

TEST_CASE("sum line: a name with a backslash or a control character is escaped and marked") {
  CHECK(sum_line("00", "a\\b") == "\\00  a\\\\b\n");
  CHECK(sum_line("00", "a\nb") == "\\00  a\\nb\n");
  CHECK(sum_line("00", "\r\t\x01") == "\\00  \\r\\t\\x01\n");
}

TEST_CASE("columns: a character counts once, however many bytes it has") {
  CHECK(columns("abc") == 3);
  CHECK(columns("\xc3\xa9\xe2\x82\xac") == 2);
}

TEST_CASE("json: every name that UTF-8 can hold reads back as it was") {
  for (int c = 0; c < 0x80; ++c) {
    const std::string text = {'a', static_cast<char>(c), 'b'};
    CAPTURE(c);
    CHECK(read_back(text) == text);
  }
  const std::string wide = "\xc2\x80 \xc3\xa9 \xe2\x80\xa8 \xf0\x9f\x9a\x80";
  CHECK(read_back(wide) == wide);
  CHECK(read_back("") == "");
}

TEST_CASE("json: bytes that are not UTF-8 become a replacement, so that the text stays valid") {
  CHECK(read_back("a\xff"s + "b") == "a\xef\xbf\xbd" + "b"s);
  CHECK(read_back("\xe2\x82") == "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("json: an object has its fields in the order that they were written") {
  std::string text;
  json_object object(text);
  object.field("name", "x\"").field("whole", std::numeric_limits<std::uint64_t>::max());
  object.field("real", 0.5).field("infinite", std::numeric_limits<double>::infinity());
  object.field("yes", true).list("shape", std::vector<std::uint64_t>{2, 3});
  json_object(object.key_of_next("inner")).close();
  object.close();
  CHECK(text == R"({"name": "x\"", "whole": 18446744073709551615, "real": 0.5, "infinite": 0, )"
                R"("yes": true, "shape": [2, 3], "inner": {}})");
  CHECK(boost::json::parse(text).is_object());
}
