// SPDX-License-Identifier: Apache-2.0

#include "base/printable.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t path_bytes_max = 1024;

bool is_control(char32_t point) noexcept {
  return point < 0x20 || (point >= 0x7F && point <= 0x9F);
}

// Returns true for characters that break the line, are invisible, or change the reading direction.
bool is_deceptive(char32_t point) noexcept {
  return (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2060 && point <= 0x206F) || point == 0xFEFF || point == 0xAD;
}

void append_hex(std::string& out, char32_t value, int digits) {
  constexpr std::string_view hex = "0123456789abcdef";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += hex[value >> shift & 0xF];
}

}  // namespace

std::string printable(std::string_view text, std::size_t bytes_max) {
  std::string out;
  out.reserve(std::min(text.size(), bytes_max));
  while (!text.empty()) {
    if (out.size() >= bytes_max) return out + "...";
    const std::size_t bytes = utf8_sequence_bytes(text);
    if (bytes == 0) {
      out += "\\x";
      append_hex(out, static_cast<unsigned char>(text[0]), 2);
      text.remove_prefix(1);
      continue;
    }
    const char32_t point = utf8_code_point(text.substr(0, bytes));
    if (is_control(point) || is_deceptive(point)) {
      out += "\\u";
      append_hex(out, point, 4);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

std::string tensor_place(std::string_view name) { return "tensor '" + printable(name) + "'"; }

std::string tensor_place(const catalog& checkpoint, const tensor_info& tensor) {
  const std::string place = tensor_place(tensor.name);
  if (tensor.file >= checkpoint.files.size()) return place;
  return printable_path(checkpoint.files[tensor.file].path) + ": " + place;
}

std::string printable_path(std::string_view path) { return printable(path, path_bytes_max); }

bool has_control_character(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    // The control characters U+0080 to U+009F (C1) are encoded as C2 80 to C2 9F.
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
      return true;
    }
  }
  return false;
}

}  // namespace ringload::inline v0
