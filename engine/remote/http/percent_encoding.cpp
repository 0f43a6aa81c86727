// SPDX-License-Identifier: Apache-2.0
#include "remote/http/percent_encoding.hpp"

#include <cstddef>

namespace ringload::inline v0::remote_http {

namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string encoded(std::string_view text, bool keeps_slash) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  constexpr std::string_view marks = "-._~";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool stays =
        is_letter(c) || is_digit(c) || marks.find(c) != marks.npos || (keeps_slash && c == '/');
    if (stays) {
      out += c;
      continue;
    }
    const auto value = static_cast<unsigned char>(c);
    out += '%';
    out += digits[value >> 4];
    out += digits[value & 15];
  }
  return out;
}

}  // namespace

std::string percent_encoded(std::string_view text) { return encoded(text, false); }
std::string percent_encoded_path(std::string_view text) { return encoded(text, true); }

result<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text.front() != '%') {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    const int high = text.size() > 2 ? hex_value(text[1]) : -1;
    const int low = text.size() > 2 ? hex_value(text[2]) : -1;
    if (high < 0 || low < 0) {
      return fault{errc::invalid_source_name, "",
                   "a '%' is not followed by two hexadecimal digits"};
    }
    out += static_cast<char>(high << 4 | low);
    text.remove_prefix(3);
  }
  return out;
}

}  // namespace ringload::inline v0::remote_http
