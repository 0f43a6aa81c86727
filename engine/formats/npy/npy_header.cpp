// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/npy/npy.hpp"
#include "formats/shape.hpp"
#include "formats/text/little_endian.hpp"
#include "formats/text/malformed.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";
constexpr std::size_t npy_dims_max = 64;  // NumPy 2 has the same limit.

struct npy_type_row {
  std::string_view text;  // The text of the type without the byte order.
  ringload::dtype dtype;
  std::uint8_t swap_bytes;
};

constexpr std::array<npy_type_row, 14> npy_types = {{
    {"b1", dtype::boolean, 0},
    {"i1", dtype::i8, 0},
    {"u1", dtype::u8, 0},
    {"i2", dtype::i16, 2},
    {"u2", dtype::u16, 2},
    {"f2", dtype::f16, 2},
    {"i4", dtype::i32, 4},
    {"u4", dtype::u32, 4},
    {"f4", dtype::f32, 4},
    {"i8", dtype::i64, 8},
    {"u8", dtype::u64, 8},
    {"f8", dtype::f64, 8},
    {"c8", dtype::c64, 4},
    {"c16", dtype::c128, 8},
}};

std::string_view kind_of(char code) {
  switch (code) {
    case 'O': return "Python objects, which only a pickle can hold";
    case 'U': return "text";
    case 'S':
    case 'a': return "strings of bytes";
    case 'M': return "dates";
    case 'm': return "differences of dates";
    case 'V': return "bytes without a type";
    default: return "an unknown type";
  }
}

fault unsupported_dtype(std::size_t byte, std::string_view descr, const unnamed_dtypes& nameless) {
  const std::string_view kind = kind_of(descr.size() > 1 ? descr[1] : '\0');
  std::string cause = "its elements are " + std::string(kind) + " ('" + printable(descr) + "')";
  const bool has_one_byte = descr.ends_with("V1");
  const std::optional<dtype> chosen = has_one_byte            ? nameless.one_byte
                                      : descr.ends_with("V2") ? nameless.two_bytes
                                                              : std::nullopt;
  if (chosen) {
    cause += "; the option for unnamed dtypes names a type of " + std::to_string(bits(*chosen)) +
             " bits, expected " + (has_one_byte ? "8" : "16") + " bits";
  } else if (has_one_byte || descr.ends_with("V2") || descr.ends_with("f1")) {
    cause += ", as ml_dtypes writes them; the option for unnamed dtypes must name their type";
  }
  return {errc::unsupported_feature, "byte " + grouped(byte), std::move(cause)};
}

// Reads the Python dictionary. Its values are a string, a boolean and a tuple of integers.
class npy_header_reader {
 public:
  npy_header_reader(std::string_view text, std::size_t text_offset, const read_options& options)
      : text_(text), text_offset_(text_offset), options_(options) {}

  result<npy_header> read();

 private:
  std::size_t byte() const { return text_offset_ + position_; }
  fault expected(std::string_view element) const {
    return malformed_at(byte(), "expected " + std::string(element));
  }
  bool take(char c);
  result<std::string_view> string();
  result<void> descr();
  result<void> fortran_order();
  result<void> shape();
  result<std::uint64_t> integer();
  result<void> value(std::string_view key);

  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t text_offset_;
  const read_options& options_;
  npy_header header_;
};

// Skips white space. If the next character is `c`, reads the character and returns true.
bool npy_header_reader::take(char c) {
  constexpr std::string_view spaces = " \t\n\r\f";
  while (position_ < text_.size() && spaces.find(text_[position_]) != std::string_view::npos)
    ++position_;
  if (position_ == text_.size() || text_[position_] != c) return false;
  ++position_;
  return true;
}

result<std::string_view> npy_header_reader::string() {
  // Python 2 writes a 'u' before the quotes of a text.
  if (take('u') && text_.substr(position_, 1).find_first_of("'\"") != 0) {
    return expected("a string");
  }
  const char quote = take('\'') ? '\'' : take('"') ? '"' : '\0';
  if (quote == '\0') return expected("a string");
  const std::size_t end = text_.find(quote, position_);
  const std::string_view content = text_.substr(position_, end - position_);
  if (end == std::string_view::npos || content.find('\\') != std::string_view::npos) {
    return malformed_at(byte(), "the string has no end, or has an escape");
  }
  position_ = end + 1;
  return content;
}

result<void> npy_header_reader::descr() {
  if (take('[') || take('(')) {
    return fault{errc::unsupported_feature, "byte " + grouped(byte() - 1),
                 "its elements are structures or arrays, expected numbers"};
  }
  const std::size_t begin = byte();
  auto text = string();
  if (!text) return text.error();
  constexpr std::string_view orders = "<>|=";
  if (text->size() < 2 || orders.find(text->front()) == std::string_view::npos) {
    return malformed_at(begin, "'" + printable(*text) + "' is not an element type");
  }
  const std::string_view type = text->substr(1);
  const auto row = std::ranges::find(npy_types, type, &npy_type_row::text);
  const unnamed_dtypes& nameless = options_.nameless;
  if (row != npy_types.end()) {
    header_.dtype = row->dtype;
    header_.swap_bytes = text->front() == '>' ? row->swap_bytes : std::uint8_t{0};
  } else if (type == "V1" && nameless.one_byte && bits(*nameless.one_byte) == 8) {
    header_.dtype = *nameless.one_byte;
  } else if (type == "V2" && nameless.two_bytes && bits(*nameless.two_bytes) == 16) {
    header_.dtype = *nameless.two_bytes;
    header_.swap_bytes = text->front() == '>' ? 2 : 0;
  } else if (type == "f1" && (nameless.one_byte || nameless.two_bytes)) {
    // Only f8_e5m2 of the package ml_dtypes has this name.
    header_.dtype = dtype::f8_e5m2;
  } else {
    return unsupported_dtype(begin, *text, nameless);
  }
  return {};
}

result<void> npy_header_reader::fortran_order() {
  const bool is_true = take('T');
  const std::string_view tail = is_true ? "rue" : "alse";
  if ((!is_true && !take('F')) || !text_.substr(position_).starts_with(tail)) {
    return expected("True or False");
  }
  position_ += tail.size();
  header_.fortran_order = is_true;
  return {};
}

result<std::uint64_t> npy_header_reader::integer() {
  std::uint64_t value = 0;
  const std::size_t begin = position_;
  for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9';
       ++position_) {
    const auto digit = static_cast<std::uint64_t>(text_[position_] - '0');
    const auto shifted = checked_multiply(value, 10);
    const auto next = shifted ? checked_add(*shifted, digit) : shifted;
    if (!next) {
      return fault{errc::size_overflow, "byte " + grouped(byte()),
                   "this dimension does not fit in 64 bits"};
    }
    value = *next;
  }
  if (position_ == begin) return expected("a dimension");
  // Python 2 writes an L after the number.
  if (position_ < text_.size() && text_[position_] == 'L') ++position_;
  return value;
}

result<void> npy_header_reader::shape() {
  if (!take('(')) return expected("a tuple");
  bool comma = true;
  while (!take(')')) {
    if (!comma) return expected("a comma");
    if (header_.shape.size() == npy_dims_max) {
      return malformed_at(
          byte(), "the shape has more than " + std::to_string(npy_dims_max) + " dimensions");
    }
    auto dim = integer();
    if (!dim) return dim.error();
    header_.shape.push_back(*dim);
    comma = take(',');
  }
  if (header_.shape.size() == 1 && !comma) {
    return malformed_at(byte(), "(" + std::to_string(header_.shape[0]) + ") is not a tuple");
  }
  return {};
}

result<void> npy_header_reader::value(std::string_view key) {
  if (key == "descr") return descr();
  if (key == "fortran_order") return fortran_order();
  if (key == "shape") return shape();
  return malformed_at(byte(), "'" + printable(key) + "' is not a key of an array's header");
}

result<npy_header> npy_header_reader::read() {
  if (!take('{')) return expected("a dictionary");
  std::vector<std::string_view> seen;
  bool comma = true;
  while (!take('}')) {
    if (!comma) return expected("a comma");
    auto key = string();
    if (!key) return key.error();
    if (std::ranges::find(seen, *key) != seen.end()) {
      return malformed_at(byte(), "duplicate key '" + printable(*key) + "'");
    }
    seen.push_back(*key);
    if (!take(':')) return expected("a colon");
    if (auto status = value(*key); !status) return status.error();
    comma = take(',');
  }
  if (seen.size() != 3) {
    return malformed_at(byte(), "the header lacks one of 'descr', 'fortran_order' and 'shape'");
  }
  take('\n');
  if (position_ != text_.size())
    return malformed_at(byte(), "bytes follow the dictionary of the header");
  return std::move(header_);
}

}  // namespace

result<std::size_t> npy_header_end(std::span<const std::byte> prefix) {
  constexpr std::size_t version_at = npy_magic.size();
  constexpr std::size_t length_at = version_at + 2;
  if (prefix.size() < length_at + 2 || !as_text(prefix).starts_with(npy_magic)) {
    return malformed_at(0, "this is not a NumPy array: it does not begin with NUMPY and a version");
  }
  const auto major = std::to_integer<unsigned>(prefix[version_at]);
  const auto minor = std::to_integer<unsigned>(prefix[version_at + 1]);
  if (major < 1 || major > 3 || minor != 0) {
    return fault{errc::unsupported_feature, "byte " + grouped(version_at),
                 "version " + std::to_string(major) + "." + std::to_string(minor) +
                     " of NumPy's format is not supported, expected 1.0, 2.0 or 3.0"};
  }
  if (major > 1 && prefix.size() < npy_prefix_bytes) {
    return malformed_at(length_at, "the file ends inside the length of the array's header");
  }
  const std::size_t begin = major == 1 ? length_at + 2 : length_at + 4;
  const std::size_t text_bytes = major == 1 ? little_endian<std::uint16_t>(prefix, length_at)
                                            : little_endian<std::uint32_t>(prefix, length_at);
  if (text_bytes > npy_header_bytes_max) {
    return fault{errc::header_too_large, "byte " + grouped(length_at),
                 "the header would have " + grouped(text_bytes) + " bytes, the limit is " +
                     grouped(npy_header_bytes_max)};
  }
  return begin + text_bytes;
}

result<npy_header> parse_npy_header(std::span<const std::byte> header,
                                    const read_options& options) {
  const std::size_t begin = std::to_integer<unsigned>(header[npy_magic.size()]) == 1 ? 10 : 12;
  auto parsed = npy_header_reader(as_text(header.subspan(begin)), begin, options).read();
  if (!parsed) return parsed;
  const auto elements = element_count(parsed->shape);
  const auto bytes = elements ? checked_multiply(*elements, bits(parsed->dtype) / 8) : elements;
  if (!bytes) {
    return fault{errc::size_overflow, "byte " + grouped(begin),
                 "an array of shape " + shape_text(parsed->shape) + " does not fit in 64 bits"};
  }
  parsed->data_bytes = *bytes;
  return parsed;
}

}  // namespace ringload::inline v0
