// SPDX-License-Identifier: Apache-2.0
#include "json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "text.hpp"

namespace ringload::tool {

void append_json(std::string& to, std::string_view text) {
  to += '"';
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0) {
      to += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      to += '\\';
      to += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      to += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      to += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  to += '"';
}

void append_json(std::string& to, std::uint64_t number) { to += std::to_string(number); }

void append_json(std::string& to, double number) {
  std::string text = fmt::format("{:.9f}", std::isfinite(number) ? number : 0.0);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  to += text == "-0" ? "0" : text;
}

}  // namespace ringload::tool
