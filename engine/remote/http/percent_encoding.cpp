// SPDX-License-Identifier: Apache-2.0

#include "remote/http/percent_encoding.hpp"

#include <cstddef>

namespace ringload::inline v0::remote_http {

namespace {

// Letters, digits and -._~
bool is_unreserved(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

template <class Predicate>
std::string encode_except(std::string_view text, Predicate stays) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (stays(c)) {
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

std::string percent_encoded(std::string_view text) { return encode_except(text, is_unreserved); }

std::string percent_encoded_path(std::string_view text) {
  return encode_except(text, [](char c) { return c == '/' || is_unreserved(c); });
}

std::string percent_encoded_raw(std::string_view address) {
  static constexpr std::string_view never = " \"<>\\^`{|}";
  return encode_except(address, [](char c) {
    return static_cast<unsigned char>(c) < 0x80 && never.find(c) == never.npos;
  });
}

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
