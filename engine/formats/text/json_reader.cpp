// SPDX-License-Identifier: Apache-2.0

#include "formats/text/json_reader.hpp"

#include <array>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/text/json_number.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t found_bytes_max = 20;  // Limit of the quoted text in a message.

// Characters that end a run of plain characters: the quote, the escape, and control characters,
// which JSON does not allow unescaped.
constexpr auto ends_plain_run = [] {
  std::array<bool, 256> ends{};
  for (std::size_t c = 0; c < 0x20; ++c) ends[c] = true;
  ends['"'] = true;
  ends['\\'] = true;
  return ends;
}();

}  // namespace

bool json_reader::fail_at(std::size_t position, std::string cause) {
  if (!failed()) {
    fault_position_ = position;
    cause_ = std::move(cause);
  }
  return false;
}

bool json_reader::unexpected(std::string_view expected) {
  std::string cause = "expected ";
  cause += expected;
  if (position_ >= text_.size()) return fail(cause + " but the text ends");
  return fail(cause + " but found '" +
              printable(text_.substr(position_, 4 * found_bytes_max), found_bytes_max) + "'");
}

char json_reader::peek() noexcept {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return c;
    ++position_;
  }
  return '\0';
}

bool json_reader::enter(char open, std::string_view expected) {
  if (failed()) return false;
  if (peek() != open) return unexpected(expected);
  ++position_;
  just_opened_ = true;
  return true;
}

bool json_reader::enter_object() { return enter('{', "an object"); }
bool json_reader::enter_array() { return enter('[', "an array"); }

// Returns true if another item follows, and reads the separator before the item.
bool json_reader::next_in(char close, std::string_view expected) {
  if (failed()) return false;
  const char c = peek();
  const bool first = std::exchange(just_opened_, false);
  if (c == close) {
    ++position_;
    return false;
  }
  if (first) return true;
  if (c != ',') return unexpected(expected);
  ++position_;
  return true;
}

bool json_reader::next_key(std::string_view& key) {
  if (!next_in('}', "',' or '}'")) return false;
  if (!string(key)) return false;
  if (peek() != ':') return unexpected("':' after a key");
  ++position_;
  return true;
}

bool json_reader::next_item() { return next_in(']', "',' or ']'"); }

bool json_reader::string(std::string_view& value) {
  if (failed()) return false;
  if (peek() != '"') return unexpected("a string");
  const std::size_t begin = ++position_;
  while (position_ < text_.size() && !ends_plain_run[static_cast<unsigned char>(text_[position_])])
    ++position_;
  if (position_ < text_.size() && text_[position_] == '"') {
    value = text_.substr(begin, position_ - begin);
    ++position_;
    return true;
  }
  return escaped_string(begin, value);
}

bool json_reader::escaped_string(std::size_t begin, std::string_view& value) {
  decoded_.reserve(text_.size());
  const std::size_t decoded_begin = decoded_.size();
  std::size_t run_begin = begin;
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (!ends_plain_run[static_cast<unsigned char>(c)]) {
      ++position_;
      continue;
    }
    decoded_.append(text_, run_begin, position_ - run_begin);
    if (c == '"') {
      ++position_;
      value = std::string_view(decoded_).substr(decoded_begin);
      return true;
    }
    if (c != '\\') return fail("a control character inside a string is not escaped");
    ++position_;
    if (!escape()) return false;
    run_begin = position_;
  }
  return fail("the text ends inside a string");
}

bool json_reader::escape() {
  constexpr std::string_view letters = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";

  if (position_ >= text_.size()) return fail("the text ends inside a string");
  const char c = text_[position_];
  if (c == 'u') {
    ++position_;
    return unicode_escape();
  }
  const std::size_t letter_index = letters.find(c);
  if (letter_index == std::string_view::npos)
    return fail_at(position_ - 1, "unknown escape in a string");
  decoded_.push_back(meanings[letter_index]);
  ++position_;
  return true;
}

bool json_reader::unicode_escape() {
  const std::size_t escape_at = position_ - 2;
  char32_t point = 0;
  if (!four_hex(point)) return false;
  if (point >= 0xD800 && point <= 0xDFFF) {
    // The high half of a surrogate pair must be first, and the low half must follow directly.
    char32_t low = 0;
    const bool pair = point < 0xDC00 && text_.substr(position_, 2) == "\\u";
    if (pair) position_ += 2;
    if (pair && !four_hex(low)) return false;
    if (low < 0xDC00 || low > 0xDFFF) {
      return fail_at(escape_at, "a string has only one half of a surrogate pair");
    }
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(decoded_, point);
  return true;
}

bool json_reader::four_hex(char32_t& unit) {
  unit = 0;
  for (int i = 0; i < 4; ++i, ++position_) {
    const char c = position_ < text_.size() ? text_[position_] : '\0';
    char32_t digit = 0;
    if (is_digit(c)) {
      digit = static_cast<char32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<char32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<char32_t>(c - 'A' + 10);
    } else {
      return fail("\\u needs four hexadecimal digits");
    }
    unit = unit << 4 | digit;
  }
  return true;
}

bool json_reader::digits() {
  const std::size_t begin = position_;
  while (position_ < text_.size() && is_digit(text_[position_])) ++position_;
  return position_ > begin || unexpected("a digit");
}

bool json_reader::number(std::string_view& text) {
  if (failed()) return false;
  const char first = peek();
  if (first != '-' && !is_digit(first)) return unexpected("a number");
  const std::size_t begin = position_;
  if (first == '-') ++position_;
  const bool zero = position_ < text_.size() && text_[position_] == '0';
  if (!digits()) return false;
  if (zero && position_ - begin > (first == '-' ? 2U : 1U)) {
    return fail_at(begin, "a number has leading zeros");
  }
  if (position_ < text_.size() && text_[position_] == '.') {
    ++position_;
    if (!digits()) return false;
  }
  if (position_ < text_.size() && (text_[position_] == 'e' || text_[position_] == 'E')) {
    ++position_;
    if (position_ < text_.size() && (text_[position_] == '+' || text_[position_] == '-'))
      ++position_;
    if (!digits()) return false;
  }
  text = text_.substr(begin, position_ - begin);
  // Every number of up to 20 characters without an exponent is below the largest double.
  const bool may_exceed = text.size() > 20 || text.find_first_of("eE") != std::string_view::npos;
  if (may_exceed && json_exceeds_double(text)) {
    return fail_at(begin, "a number is too large for a double");
  }
  return true;
}

bool json_reader::unsigned_integer(std::uint64_t& value) {
  std::string_view text;
  if (!number(text)) return false;
  const auto parsed = json_unsigned(text);
  if (!parsed) {
    return fail_at(position_ - text.size(),
                   "expected a whole number from 0 to 2^64 - 1 but found '" +
                       printable(text, found_bytes_max) + "'");
  }
  value = *parsed;
  return true;
}

bool json_reader::literal(std::string_view word) {
  if (failed()) return false;
  if (text_.substr(position_, word.size()) != word) return unexpected("a value");
  position_ += word.size();
  return true;
}

bool json_reader::null() {
  if (peek() != 'n') return unexpected("null");
  return literal("null");
}

bool json_reader::skip_value(unsigned containers_deep) {
  if (failed()) return false;
  std::string_view ignored;
  switch (peek()) {
    case '"': return string(ignored);
    case 't': return literal("true");
    case 'f': return literal("false");
    case 'n': return literal("null");
    case '{':
      if (containers_deep == 0) return fail("values are nested too deeply");
      enter_object();
      while (next_key(ignored)) {
        if (!skip_value(containers_deep - 1)) return false;
      }
      return !failed();
    case '[':
      if (containers_deep == 0) return fail("values are nested too deeply");
      enter_array();
      while (next_item()) {
        if (!skip_value(containers_deep - 1)) return false;
      }
      return !failed();
    case '-': return number(ignored);
    default: return is_digit(peek()) ? number(ignored) : unexpected("a value");
  }
}

bool json_reader::end() {
  if (failed()) return false;
  peek();
  if (position_ < text_.size()) return unexpected("the end of the text");
  return true;
}

}  // namespace ringload::inline v0
