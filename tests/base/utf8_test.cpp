// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <string_view>

using namespace ringload;

TEST_CASE("utf8: the first and the last code point of each length are valid") {
  for (const char32_t point : {U'\x01', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xD7FF', U'\xE000',
                               U'\xFFFF', char32_t{0x10000}, char32_t{0x10FFFF}}) {
    std::string text;
    append_utf8(text, point);
    CAPTURE(static_cast<unsigned>(point));
    CHECK(utf8_sequence_bytes(text) == text.size());
    CHECK(utf8_code_point(text) == point);
    CHECK(utf8_sequence_bytes(std::string_view(text).substr(0, text.size() - 1)) == 0);
  }
}

TEST_CASE("utf8: overlong forms, surrogates and what lies beyond Unicode are invalid") {
  for (const std::string_view text :
       {"\xFF", "\xFE", "\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC2\x41",
        "\xE1\x80\x41", "\xF1\x80\x80\x41", "\xC2\xC0"}) {
    CAPTURE(text);
    CHECK(utf8_sequence_bytes(text) == 0);
    CHECK(utf8_valid_bytes(text) == 0);
  }
}

TEST_CASE("utf8: the first bad byte is found wherever it stands among eights") {
  for (std::size_t at = 0; at < 40; ++at) {
    std::string text(40, 'a');
    text[at] = '\xFF';
    CAPTURE(at);
    CHECK(utf8_valid_bytes(text) == at);
  }
  CHECK(utf8_valid_bytes(std::string(40, 'a')) == 40);
  CHECK(utf8_valid_bytes("") == 0);
}

TEST_CASE("utf8: sequences across the border of eight bytes are valid") {
  for (std::size_t before = 0; before < 16; ++before) {
    const std::string text = std::string(before, 'a') + "\xF0\x9F\x98\x80\xC3\xA9" + "tail";
    CAPTURE(before);
    CHECK(utf8_valid_bytes(text) == text.size());
  }
}
