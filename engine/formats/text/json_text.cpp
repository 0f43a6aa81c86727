// SPDX-License-Identifier: Apache-2.0

#include "formats/text/json_text.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

void append_escaped(std::string& out, char c) {
  constexpr std::string_view hex = "0123456789abcdef";
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\t': out += "\\t"; return;
    case '\r': out += "\\r"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    default:
      out += "\\u00";
      out += hex[static_cast<unsigned char>(c) >> 4];
      out += hex[static_cast<unsigned char>(c) & 0xF];
  }
}

bool is_plain(char c) noexcept {
  return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
}

template <class T>
void append_number(std::string& out, T value) {
  std::array<char, 40> digits = {};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::size_t valid = utf8_valid_bytes(text);
    for (const char c : text.substr(0, valid)) {
      if (is_plain(c)) {
        out += c;
      } else {
        append_escaped(out, c);
      }
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += replacement;
    text.remove_prefix(1);
  }
  out += '"';
}

void append_json_number(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "\"NaN\"";
  } else if (std::isinf(value)) {
    out += value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  } else {
    append_number(out, value);
  }
}
void append_json_number(std::string& out, std::uint64_t value) { append_number(out, value); }
void append_json_number(std::string& out, std::int64_t value) { append_number(out, value); }

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (true) {
    const std::size_t valid = utf8_valid_bytes(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) return out;
    out += replacement;
    text.remove_prefix(1);
  }
}

}  // namespace ringload::inline v0
