// SPDX-License-Identifier: Apache-2.0

#include "formats/text/cbor_reader.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <string_view>

#include "base/numeric/convert_float.hpp"
#include "base/utf8.hpp"
#include "formats/text/cbor_major.hpp"
#include "formats/text/json_text.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint8_t indefinite_info = 31;
constexpr unsigned tags_max = 16;  // Maximum number of tags before a value.
constexpr std::uint64_t bignum_tag = 2;
constexpr std::uint8_t two_byte_simple_min = 32;  // A lower simple value has one byte.

enum simple_value : std::uint8_t {
  false_value = 20,
  true_value,
  null_value,
  undefined_value,
  one_byte,
  half_float,
  single_float,
  double_float,
};

constexpr const char* cbor_kinds[] = {"a number", "a negative number", "a byte string",
                                      "a text",   "an array",          "a map",
                                      "a tag",    "a simple value"};

void append_hex(std::string& out, std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const char c : bytes) {
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 0xF];
  }
}

}  // namespace

bool cbor_reader::read_head() {
  head_.begin = in_.position();
  std::uint8_t first = 0;
  if (!in_.number(first)) return false;
  head_.major = first >> 5U;
  head_.info = first & 31U;
  head_.indefinite = head_.info == indefinite_info;
  head_.argument = head_.info;
  if (head_.info < 24) return true;
  if (head_.indefinite && head_.major >= cbor::bytes && head_.major != cbor::tag) return true;
  std::uint8_t value8 = 0;
  std::uint16_t value16 = 0;
  std::uint32_t value32 = 0;
  switch (head_.info) {
    case 24:
      if (!in_.number(value8)) return false;
      head_.argument = value8;
      if (head_.major != cbor::simple || value8 >= two_byte_simple_min) return true;
      return in_.fail_at(head_.begin, errc::malformed_header,
                         "the simple value " + grouped(value8) + " has two bytes");
    case 25:
      if (!in_.number(value16, std::endian::big)) return false;
      head_.argument = value16;
      return true;
    case 26:
      if (!in_.number(value32, std::endian::big)) return false;
      head_.argument = value32;
      return true;
    case 27: return in_.number(head_.argument, std::endian::big);
    default:
      return in_.fail_at(head_.begin, errc::malformed_header,
                         "the CBOR byte " + grouped(first) + " does not begin a value");
  }
}

// Reads the head of the next value, unless the head was already read.
bool cbor_reader::peek() {
  if (peeked_) return true;
  tag_ = 0;
  for (unsigned tags = 0; tags <= tags_max; ++tags) {
    if (!read_head()) return false;
    if (head_.major != cbor::tag) {
      if (tags > 0 && is_break()) return unexpected("a value after a tag");
      peeked_ = true;
      return true;
    }
    tag_ = head_.argument;
  }
  return in_.fail_at(head_.begin, errc::malformed_header,
                     "more than " + grouped(tags_max) + " tags before one value");
}

bool cbor_reader::is_break() const noexcept {
  return head_.major == cbor::simple && head_.indefinite;
}

bool cbor_reader::unexpected(const char* expected) {
  return in_.fail_at(
      head_.begin, errc::malformed_header,
      "expected " + std::string(expected) + ", found " +
          (is_break() ? "a break, which ends a container" : cbor_kinds[head_.major]));
}

bool cbor_reader::enter(std::uint8_t major, const char* expected) {
  if (!peek()) return false;
  if (head_.major != major) return unexpected(expected);
  if (open_.size() == depth_max) {
    return in_.fail_at(head_.begin, errc::malformed_header,
                       "more than " + grouped(depth_max) + " nested arrays and maps");
  }
  take();
  open_.push_back({head_.argument, head_.indefinite});
  return true;
}

bool cbor_reader::enter_map() { return enter(cbor::map, "a map"); }
bool cbor_reader::enter_array() { return enter(cbor::array, "an array"); }

// Sets `more` to true if the innermost container has another item. Otherwise sets `more` to false,
// and leaves the container.
bool cbor_reader::next(bool& more) {
  container& inner = open_.back();
  if (inner.indefinite) {
    if (!peek()) return false;
    more = !is_break();
    if (!more) take();
  } else {
    more = inner.left > 0;
    if (more) --inner.left;
  }
  if (!more) open_.pop_back();
  return true;
}

bool cbor_reader::next_item() {
  bool more = false;
  return next(more) && more;
}

bool cbor_reader::next_key(std::string& key) { return next_item() && text(key); }

bool cbor_reader::chunk(std::uint64_t bytes, std::string& out) {
  if (bytes > in_.left() || bytes > string_bytes_max - out.size()) {
    return in_.fail_at(head_.begin, errc::malformed_header,
                       "a string of " + grouped(bytes) + " bytes is announced, but only " +
                           grouped(std::min(in_.left(), string_bytes_max - out.size())) +
                           " bytes are possible");
  }
  std::string_view content;
  if (!in_.text(static_cast<std::size_t>(bytes), content)) return false;
  out += content;
  return true;
}

bool cbor_reader::string_of(std::uint8_t major, std::string& out) {
  out.clear();
  take();
  if (!head_.indefinite) return chunk(head_.argument, out);
  while (true) {
    if (!read_head()) return false;
    if (is_break()) return true;
    if (head_.major != major || head_.indefinite) {
      return in_.fail_at(head_.begin, errc::malformed_header,
                         "a chunk of a string has another type than the string");
    }
    if (!chunk(head_.argument, out)) return false;
  }
}

bool cbor_reader::text(std::string& out) {
  if (!peek()) return false;
  const std::uint64_t begin = head_.begin;
  if (head_.major != cbor::text) return unexpected("a text");
  if (!string_of(cbor::text, out)) return false;
  if (utf8_valid_bytes(out) == out.size()) return true;
  return in_.fail_at(begin, errc::header_not_utf8, "the text is not UTF-8");
}

bool cbor_reader::big_number(std::uint64_t& out) {
  const std::uint64_t begin = head_.begin;
  std::string digits;
  if (!string_of(cbor::bytes, digits)) return false;
  out = 0;
  for (const char c : digits) {
    if (out >> 56U != 0) {
      return in_.fail_at(begin, errc::malformed_header, "the number does not fit in 64 bits");
    }
    out = out << 8U | static_cast<unsigned char>(c);
  }
  return true;
}

bool cbor_reader::unsigned_integer(std::uint64_t& out) {
  if (!peek()) return false;
  if (head_.major == cbor::bytes && tag_ == bignum_tag) return big_number(out);
  if (head_.major != cbor::positive) return unexpected("a number that is not negative");
  out = head_.argument;
  take();
  return true;
}

bool cbor_reader::null() {
  if (!peek() || head_.major != cbor::simple) return false;
  if (head_.info != null_value && head_.info != undefined_value) return false;
  take();
  return true;
}

bool cbor_reader::is_text() { return peek() && head_.major == cbor::text; }

bool cbor_reader::skip_value() {
  const std::size_t outside = open_.size();
  std::string ignored;
  // Each pair counts as two items here. Doubling the number of pairs cannot overflow, because the
  // number is at most the number of bytes that are left.
  do {
    if (open_.size() > outside) {
      const bool follows_key = open_.back().follows_key;
      bool more = false;
      if (!next(more)) return false;
      if (!more && follows_key) return unexpected("the value of a key");
      if (!more) continue;
      open_.back().follows_key = open_.back().is_map && !follows_key;
    }
    if (!peek()) return false;
    if (head_.major == cbor::array || head_.major == cbor::map) {
      const bool is_map = head_.major == cbor::map;
      if (!enter(head_.major, "a container")) return false;
      container& inner = open_.back();
      if (is_map && !inner.indefinite && inner.left > in_.left()) {
        return in_.fail_at(head_.begin, errc::malformed_header,
                           "the map has more entries than the file has bytes");
      }
      if (is_map) inner.left *= 2;
      inner.is_map = is_map;
    } else if (head_.major == cbor::bytes || head_.major == cbor::text) {
      if (head_.indefinite) {
        if (!string_of(head_.major, ignored)) return false;
      } else {
        take();
        if (!in_.skip(head_.argument)) return false;
      }
    } else if (is_break()) {
      return unexpected("a value");
    } else {
      take();
    }
  } while (open_.size() > outside);
  return true;
}

// Writes a half and a single as a double, because writers shorten a double to the smallest type
// that holds its value. The shortest digits of a single can be another number as a double.
bool cbor_reader::json_scalar(std::string& out) {
  if (head_.major == cbor::positive) {
    append_json_number(out, head_.argument);
  } else if (head_.major == cbor::negative) {
    // The argument n means the value -1 - n. The lowest value needs 65 bits.
    out += head_.argument == UINT64_MAX ? "-18446744073709551616"
                                        : "-" + std::to_string(head_.argument + 1);
  } else if (head_.info == half_float) {
    const auto half = static_cast<std::uint16_t>(head_.argument);
    append_json_number(out, double{std::bit_cast<float>(float_bits<float_type::f16>::widen(half))});
  } else if (head_.info == single_float) {
    append_json_number(out,
                       double{std::bit_cast<float>(static_cast<std::uint32_t>(head_.argument))});
  } else if (head_.info == double_float) {
    append_json_number(out, std::bit_cast<double>(head_.argument));
  } else if (head_.argument == false_value || head_.argument == true_value) {
    out += head_.argument == true_value ? "true" : "false";
  } else if (head_.argument == null_value || head_.argument == undefined_value) {
    out += "null";
  } else if (head_.indefinite) {
    return unexpected("a value");
  } else {
    append_json_number(out, head_.argument);
  }
  take();
  return true;
}

// Refuses an array or a map as a key. The JSON text of the key would be escaped once for each level
// of nesting, so its length could double with each level.
bool cbor_reader::json_key(std::string& out, std::size_t bytes_max) {
  if (!peek()) return false;
  if (head_.major == cbor::text || head_.major == cbor::bytes) return json(out, bytes_max);
  if (head_.major == cbor::array || head_.major == cbor::map)
    return unexpected("a key that is not a container");
  std::string key;
  if (!json_scalar(key)) return false;
  append_json_string(out, key);
  return true;
}

bool cbor_reader::json_container(std::string& out, std::size_t bytes_max) {
  const bool is_map = head_.major == cbor::map;
  if (!enter(head_.major, "a container")) return false;
  out += is_map ? '{' : '[';
  bool more = false;
  for (bool first = true; next(more) && more; first = false) {
    if (!first) out += ',';
    if (is_map) {
      if (!json_key(out, bytes_max)) return false;
      out += ':';
    }
    if (!json(out, bytes_max)) return false;
  }
  out += is_map ? '}' : ']';
  return !failed();
}

bool cbor_reader::json(std::string& out, std::size_t bytes_max) {
  if (!peek()) return false;
  const std::uint64_t begin = head_.begin;
  if (out.size() > bytes_max) {
    return in_.fail_at(begin, errc::header_too_large,
                       "the attributes have more than " + grouped(bytes_max) + " bytes of text");
  }
  if (head_.major == cbor::array || head_.major == cbor::map) return json_container(out, bytes_max);
  std::string value;
  if (head_.major == cbor::text) {
    if (!text(value)) return false;
    append_json_string(out, value);
    return true;
  }
  if (head_.major == cbor::bytes) {
    if (!string_of(cbor::bytes, value)) return false;
    out += '"';
    append_hex(out, value);
    out += '"';
    return true;
  }
  return json_scalar(out);
}

}  // namespace ringload::inline v0
