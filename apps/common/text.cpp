// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ringload::tool {

namespace {

bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string escaped(char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
}

}  // namespace

std::size_t utf8_length(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  if (byte(0) < 0xc2 || byte(0) > 0xf4) return 0;
  const std::size_t length = byte(0) < 0xe0 ? 2U : byte(0) < 0xf0 ? 3U : 4U;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  // Refuses encodings that are longer than necessary, surrogates, and values above U+10FFFF.
  if (byte(0) == 0xe0 && byte(1) < 0xa0) return 0;
  if (byte(0) == 0xed && byte(1) > 0x9f) return 0;
  if (byte(0) == 0xf0 && byte(1) < 0x90) return 0;
  if (byte(0) == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    // U+0080 to U+009F are control characters too. Some terminals interpret U+009B as an escape
    // sequence.
    const bool second_controls =
        length == 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0;
    if (length == 0 || is_control(text[0]) || second_controls) {
      for (char c : text.substr(0, std::max<std::size_t>(length, 1))) shown += escaped(c);
    } else {
      shown += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

std::string sum_line(std::string_view digest, std::string_view name) {
  std::string line;
  const bool plain =
      std::none_of(name.begin(), name.end(), [](char c) { return c == '\\' || is_control(c); });
  if (!plain) line += '\\';
  line += digest;
  line += "  ";
  for (char c : name) {
    if (c == '\\') {
      line += "\\\\";
    } else if (is_control(c)) {
      line += escaped(c);
    } else {
      line += c;
    }
  }
  line += '\n';
  return line;
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::size_t columns(std::string_view utf8) noexcept {
  return static_cast<std::size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80;
  }));
}

}  // namespace ringload::tool
