// SPDX-License-Identifier: Apache-2.0
#include "remote/s3/xml_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/utf8.hpp"

namespace ringload::inline v0::remote_http {

namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::size_t tag_bytes_max = 128;
constexpr std::size_t entity_bytes_max = 10;  // "&#x10FFFF;" without the '&'.

bool is_blank(char c) noexcept { return blanks.find(c) != blanks.npos; }

bool is_name_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.' || c == ':';
}

std::optional<char> named_entity(std::string_view name) noexcept {
  if (name == "amp") return '&';
  if (name == "lt") return '<';
  if (name == "gt") return '>';
  if (name == "quot") return '"';
  if (name == "apos") return '\'';
  return std::nullopt;
}

// "#65" or "#x41"
std::optional<char32_t> numbered_entity(std::string_view name) noexcept {
  if (!name.starts_with('#')) return std::nullopt;
  name.remove_prefix(1);
  const bool is_hex = name.starts_with('x');
  if (is_hex) name.remove_prefix(1);
  if (name.empty()) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : name) {
    std::uint32_t digit = 16;
    if (c >= '0' && c <= '9') digit = static_cast<std::uint32_t>(c - '0');
    if (is_hex && c >= 'a' && c <= 'f') digit = static_cast<std::uint32_t>(c - 'a' + 10);
    if (is_hex && c >= 'A' && c <= 'F') digit = static_cast<std::uint32_t>(c - 'A' + 10);
    if (digit == 16) return std::nullopt;
    value = value * (is_hex ? 16 : 10) + digit;
    if (value > 0x10ffff) return std::nullopt;
  }
  const bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value == 0 || is_surrogate) return std::nullopt;
  return static_cast<char32_t>(value);
}

}  // namespace

bool xml_reader::fail(std::string cause) {
  if (!failed()) cause_ = std::move(cause);
  return false;
}

void xml_reader::skip_blanks() noexcept {
  while (rest() && is_blank(text_[position_])) ++position_;
}

bool xml_reader::root(std::string_view& name) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text_.starts_with(byte_order_mark)) position_ = byte_order_mark.size();
  if (text_.substr(position_).starts_with("<?xml")) {
    const std::size_t close = text_.find("?>", position_);
    if (close == text_.npos) return fail("the XML declaration is not closed");
    position_ = close + 2;
  }
  skip_blanks();
  if (!rest() || text_[position_] != '<') return fail("expected an element");
  return begin_tag(name);
}

// Reads <name attribute="value"> or <name/>.
bool xml_reader::begin_tag(std::string_view& name) {
  const std::size_t begin = position_ + 1;
  std::size_t name_end = begin;
  while (name_end < text_.size() && is_name_character(text_[name_end])) ++name_end;
  name = text_.substr(begin, name_end - begin);
  if (name.empty() || name.size() > tag_bytes_max) return fail("expected the name of an element");
  if (depth_ == depth_max) return fail("elements are nested too deep");
  position_ = name_end;
  char quote = '\0';
  while (rest() && (quote != '\0' || text_[position_] != '>')) {
    const char c = text_[position_++];
    if (quote != '\0') {
      if (c == quote) quote = '\0';
      if (c == '<') return fail("an attribute holds a '<'");
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '<') {
      return fail("a tag holds a '<'");
    }
  }
  if (!rest()) return fail("a tag is not closed");
  empty_ = text_[position_ - 1] == '/';
  // A '/' may only be the last character of the tag.
  const std::string_view attributes =
      text_.substr(name_end, position_ - name_end - (empty_ ? 1 : 0));
  if (!attributes.empty() && !is_blank(attributes.front())) {
    return fail("expected a blank after the name of an element");
  }
  ++position_;
  open_[depth_++] = name;
  return true;
}

// Reads </name>, the end of the open element.
bool xml_reader::end_tag() {
  const std::string_view name = open_[depth_ - 1];
  position_ += 2;
  if (!text_.substr(position_).starts_with(name))
    return fail("expected the end tag of the open element");
  position_ += name.size();
  skip_blanks();
  if (!rest() || text_[position_] != '>') return fail("expected '>'");
  ++position_;
  --depth_;
  return true;
}

bool xml_reader::next_child(std::string_view& name) {
  if (failed() || depth_ == 0) return false;
  if (empty_) {
    empty_ = false;
    --depth_;
    return false;
  }
  skip_blanks();
  if (!rest()) return fail("an element is not closed");
  if (text_[position_] != '<') return fail("expected an element, found text");
  if (text_.substr(position_).starts_with("</")) {
    end_tag();
    return false;
  }
  return begin_tag(name);
}

bool xml_reader::entity(std::string& into) {
  const std::size_t end = text_.substr(position_, entity_bytes_max + 1).find(';');
  const std::string_view name =
      end == text_.npos ? std::string_view() : text_.substr(position_ + 1, end - 1);
  if (const auto plain = named_entity(name)) {
    into += *plain;
  } else if (const auto numbered = numbered_entity(name)) {
    append_utf8(into, *numbered);
  } else {
    return fail("unsupported entity");
  }
  position_ += end + 1;
  return true;
}

bool xml_reader::text(std::string& value) {
  value.clear();
  if (failed() || depth_ == 0) return false;
  if (empty_) {
    empty_ = false;
    --depth_;
    return true;
  }
  while (rest() && text_[position_] != '<') {
    if (text_[position_] == '&') {
      if (!entity(value)) return false;
    } else {
      value += text_[position_++];
    }
  }
  if (!rest()) return fail("an element is not closed");
  if (!text_.substr(position_).starts_with("</")) return fail("expected text, found an element");
  return end_tag();
}

bool xml_reader::skip() {
  if (failed() || depth_ == 0) return false;
  const std::size_t outside = depth_ - 1;
  if (empty_) {
    empty_ = false;
    --depth_;
    return true;
  }
  while (depth_ > outside) {
    position_ = std::min(text_.find('<', position_), text_.size());
    if (!rest()) return fail("an element is not closed");
    std::string_view name;
    const bool parsed = text_.substr(position_).starts_with("</") ? end_tag() : begin_tag(name);
    if (!parsed) return false;
    if (empty_) {
      empty_ = false;
      --depth_;
    }
  }
  return true;
}

bool xml_reader::end() {
  skip_blanks();
  if (failed() || depth_ > 0) return false;
  return !rest() || fail("unexpected content after the outermost element");
}

}  // namespace ringload::inline v0::remote_http
