// SPDX-License-Identifier: Apache-2.0
#include "formats/text/json_reader.hpp"

#include <array>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/text/json_number.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t found_bytes_max = 20;  // How much of a wrong text a message repeats.

// What ends a run of characters that stand for themselves: the quote, the escape, and control
// characters, which JSON does not allow in the raw.
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
    fault_at_ = position;
    cause_ = std::move(cause);
  }
  return false;
}

bool json_reader::unexpected(std::string_view wanted) {
  std::string cause = "expected ";
  cause += wanted;
  if (at_ >= text_.size()) return fail(cause + " but the text ends");
  return fail(cause + " but found '" +
              printable(text_.substr(at_, 4 * found_bytes_max), found_bytes_max) + "'");
}

char json_reader::peek() noexcept {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return c;
    ++at_;
  }
  return '\0';
}

bool json_reader::enter(char open, std::string_view wanted) {
  if (failed()) return false;
  if (peek() != open) return unexpected(wanted);
  ++at_;
  just_opened_ = true;
  return true;
}

bool json_reader::enter_object() { return enter('{', "an object"); }
bool json_reader::enter_array() { return enter('[', "an array"); }

// True when one more item follows, and then whatever had to stand before it has been read.
bool json_reader::next_in(char close, std::string_view wanted) {
  if (failed()) return false;
  const char c = peek();
  const bool first = std::exchange(just_opened_, false);
  if (c == close) {
    ++at_;
    return false;
  }
  if (first) return true;
  if (c != ',') return unexpected(wanted);
  ++at_;
  return true;
}

bool json_reader::next_key(std::string_view& key) {
  if (!next_in('}', "',' or '}'")) return false;
  if (!string(key)) return false;
  if (peek() != ':') return unexpected("':' after a key");
  ++at_;
  return true;
}

bool json_reader::next_item() { return next_in(']', "',' or ']'"); }

bool json_reader::string(std::string_view& value) {
  if (failed()) return false;
  if (peek() != '"') return unexpected("a string");
  const std::size_t begin = ++at_;
  while (at_ < text_.size() && !ends_plain_run[static_cast<unsigned char>(text_[at_])]) ++at_;
  if (at_ < text_.size() && text_[at_] == '"') {
    value = text_.substr(begin, at_ - begin);
    ++at_;
    return true;
  }
  return escaped_string(begin, value);
}

bool json_reader::escaped_string(std::size_t begin, std::string_view& value) {
  decoded_.reserve(text_.size());
  const std::size_t decoded_begin = decoded_.size();
  std::size_t run_begin = begin;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (!ends_plain_run[static_cast<unsigned char>(c)]) {
      ++at_;
      continue;
    }
    decoded_.append(text_, run_begin, at_ - run_begin);
    if (c == '"') {
      ++at_;
      value = std::string_view(decoded_).substr(decoded_begin);
      return true;
    }
    if (c != '\\') return fail("a control character stands unescaped inside a string");
    ++at_;
    if (!escape()) return false;
    run_begin = at_;
  }
  return fail("the text ends inside a string");
}

bool json_reader::escape() {
  constexpr std::string_view letters = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";

  if (at_ >= text_.size()) return fail("the text ends inside a string");
  const char c = text_[at_];
  if (c == 'u') {
    ++at_;
    return unicode_escape();
  }
  const std::size_t which = letters.find(c);
  if (which == std::string_view::npos) return fail_at(at_ - 1, "unknown escape in a string");
  decoded_.push_back(meanings[which]);
  ++at_;
  return true;
}

bool json_reader::unicode_escape() {
  const std::size_t escape_at = at_ - 2;
  char32_t point = 0;
  if (!four_hex(point)) return false;
  if (point >= 0xD800 && point <= 0xDFFF) {
    // The high half must come first, and the low half must follow at once.
    char32_t low = 0;
    const bool pair = point < 0xDC00 && text_.substr(at_, 2) == "\\u";
    if (pair) at_ += 2;
    if (pair && !four_hex(low)) return false;
    if (low < 0xDC00 || low > 0xDFFF) {
      return fail_at(escape_at, "half of a surrogate pair stands alone in a string");
    }
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(decoded_, point);
  return true;
}

bool json_reader::four_hex(char32_t& unit) {
  unit = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
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
  const std::size_t begin = at_;
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  return at_ > begin || unexpected("a digit");
}

bool json_reader::number(std::string_view& text) {
  if (failed()) return false;
  const char first = peek();
  if (first != '-' && !is_digit(first)) return unexpected("a number");
  const std::size_t begin = at_;
  if (first == '-') ++at_;
  const bool zero = at_ < text_.size() && text_[at_] == '0';
  if (!digits()) return false;
  if (zero && at_ - begin > (first == '-' ? 2U : 1U)) {
    return fail_at(begin, "a number has leading zeros");
  }
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    if (!digits()) return false;
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    if (!digits()) return false;
  }
  text = text_.substr(begin, at_ - begin);
  // A double holds every number of up to 20 characters that has no exponent.
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
    return fail_at(at_ - text.size(), "expected a whole number from 0 to 2^64 - 1 but found '" +
                                          printable(text, found_bytes_max) + "'");
  }
  value = *parsed;
  return true;
}

bool json_reader::literal(std::string_view word) {
  if (failed()) return false;
  if (text_.substr(at_, word.size()) != word) return unexpected("a value");
  at_ += word.size();
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
  if (at_ < text_.size()) return unexpected("nothing more");
  return true;
}

}  // namespace ringload::inline v0
