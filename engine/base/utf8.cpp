// SPDX-License-Identifier: Apache-2.0

#include "base/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace ringload::inline v0 {

namespace {

bool has_byte_in(std::string_view text, std::size_t index, unsigned low, unsigned high) noexcept {
  if (index >= text.size()) return false;
  const auto byte = static_cast<unsigned char>(text[index]);
  return byte >= low && byte <= high;
}

}  // namespace

std::size_t utf8_sequence_bytes(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  if (first < 0xE0) return has_byte_in(text, 1, 0x80, 0xBF) ? 2 : 0;

  // After E0, ED, F0 and F4, only some second bytes are valid. The limits exclude overlong forms
  // (E0, F0), surrogates (ED), and code points above U+10FFFF (F4).
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (!has_byte_in(text, 1, low, high) || !has_byte_in(text, 2, 0x80, 0xBF)) return 0;
  if (first < 0xF0) return 3;
  return has_byte_in(text, 3, 0x80, 0xBF) ? 4 : 0;
}

std::size_t utf8_valid_bytes(std::string_view text) noexcept {
  constexpr std::uint64_t high_bits = 0x8080808080808080;
  std::size_t position = 0;
  while (position < text.size()) {
    // Headers are nearly always ASCII, so eight ASCII bytes are accepted in one step.
    std::uint64_t eight = 0;
    if (text.size() - position >= sizeof eight) {
      std::memcpy(&eight, text.data() + position, sizeof eight);
      if ((eight & high_bits) == 0) {
        position += sizeof eight;
        continue;
      }
    }
    const std::size_t bytes = utf8_sequence_bytes(text.substr(position));
    if (bytes == 0) break;
    position += bytes;
  }
  return position;
}

char32_t utf8_code_point(std::string_view sequence) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() <= 1) return byte(0);
  // The first byte of a sequence is 110xxxxx, 1110xxxx or 11110xxx. A longer sequence has fewer
  // data bits in its first byte.
  char32_t point = byte(0) & (0x7FU >> sequence.size());
  for (std::size_t i = 1; i < sequence.size(); ++i) point = point << 6 | (byte(i) & 0x3FU);
  return point;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace ringload::inline v0
