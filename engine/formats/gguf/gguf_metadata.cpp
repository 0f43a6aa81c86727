// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_metadata.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/text/cbor_writer.hpp"
#include "formats/text/json_text.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t key_bytes_max = 65'535;
constexpr std::uint64_t string_bytes_max = std::uint64_t{1} << 30;
constexpr std::uint64_t array_elements_max = std::uint64_t{1} << 30;
constexpr unsigned array_depth_max = 16;  // Limit for the depth of arrays inside arrays.
// A byte of a string can become an escape of six bytes in JSON.
constexpr std::uint64_t json_escape_bytes = 6;
constexpr std::string_view alignment_key = "general.alignment";

enum class value_type : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};
constexpr std::uint32_t value_type_count = 13;

// Returns the size of a value, or the minimum size for a string or an array.
std::uint64_t bytes_of(value_type type) noexcept {
  switch (type) {
    case value_type::u8:
    case value_type::i8:
    case value_type::boolean: return 1;
    case value_type::u16:
    case value_type::i16: return 2;
    case value_type::u32:
    case value_type::i32:
    case value_type::f32: return 4;
    case value_type::u64:
    case value_type::i64:
    case value_type::f64:
    case value_type::string: return 8;  // An empty string has only a length field of 8 bytes.
    case value_type::array: break;
  }
  return 12;
}

class metadata_reader {
 public:
  metadata_reader(input_cursor& in, const gguf_pairs& pairs) noexcept
      : in_(in), order_(pairs.order), strict_(pairs.strictness == strictness::strict) {}

  bool pair(std::string& key, attribute& out, std::uint64_t& alignment, bool& left_out);
  // Returns true if the last pair is left out because it has arrays inside an array.
  bool is_nested() const noexcept { return nested_; }

 private:
  bool length(std::uint64_t bytes_max, std::size_t& out);
  bool string(std::uint64_t growth, std::string_view& out);
  bool type(value_type& out);
  bool value(value_type element_type, std::string& out, unsigned depth_left);
  bool boolean(std::string& out);
  bool array(std::string& out, unsigned depth_left);
  bool set_alignment(value_type element_type, std::uint64_t& alignment);

  template <class T>
  bool number(std::string& out) {
    using bits_type = std::conditional_t<
        sizeof(T) == 1, std::uint8_t,
        std::conditional_t<sizeof(T) == 2, std::uint16_t,
                           std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
    bits_type raw = 0;
    if (!in_.number(raw, order_)) return false;
    const T value_bits = std::bit_cast<T>(raw);
    cbor_writer to(out);
    if constexpr (std::is_floating_point_v<T>) {
      to.floating(value_bits);
    } else if constexpr (std::is_signed_v<T>) {
      to.integer(std::int64_t{value_bits});
    } else {
      to.unsigned_integer(std::uint64_t{value_bits});
    }
    return true;
  }

  // Leaves out the pair if `text_bytes` exceeds the unused part of the limit. Returns false if the
  // pair is left out. The caller must still read the value to its end.
  bool fits(std::uint64_t text_bytes) noexcept {
    if (text_bytes > gguf_metadata_bytes_max - used_) left_out_ = true;
    return !left_out_;
  }

  input_cursor& in_;
  const std::endian order_;
  const bool strict_;
  std::uint64_t used_ = 0;  // Total bytes of attribute::text(). At most gguf_metadata_bytes_max.
  bool left_out_ = false;   // True if the current pair is left out.
  bool nested_ = false;     // True if the current pair has arrays inside an array.
  // Limit for the elements of the current pair that must be read one by one.
  std::uint64_t elements_left_ = gguf_strings_max;
};

bool metadata_reader::length(std::uint64_t bytes_max, std::size_t& out) {
  const std::uint64_t begin = in_.position();
  std::uint64_t bytes = 0;
  if (!in_.number(bytes, order_)) return false;
  if (bytes > bytes_max || bytes > in_.left()) {
    return in_.fail_at(begin, errc::header_outside_file,
                       "a string of " + grouped(bytes) + " bytes is announced, but only " +
                           grouped(std::min(bytes_max, in_.left())) + " bytes are possible");
  }
  out = static_cast<std::size_t>(bytes);
  return true;
}

// Leaves out the pair if the string may exceed the limit. The limit applies to attribute::text(),
// which may be `growth` times as long as the string.
bool metadata_reader::string(std::uint64_t growth, std::string_view& out) {
  std::size_t bytes = 0;
  if (!length(string_bytes_max, bytes)) return false;
  if (!left_out_ && bytes <= (gguf_metadata_bytes_max - used_) / growth) {
    return in_.text(bytes, out);
  }
  left_out_ = true;
  out = {};
  return in_.skip(bytes);
}

bool metadata_reader::type(value_type& out) {
  const std::uint64_t begin = in_.position();
  std::uint32_t number = 0;
  if (!in_.number(number, order_)) return false;
  if (number >= value_type_count) {
    return in_.fail_at(begin, errc::malformed_header,
                       "unknown value type " + grouped(number) + ", expected 0 to 12");
  }
  out = static_cast<value_type>(number);
  return true;
}

bool metadata_reader::boolean(std::string& out) {
  const std::uint64_t begin = in_.position();
  std::uint8_t value = 0;
  if (!in_.number(value, order_)) return false;
  if (value > 1 && strict_) {
    return in_.fail_at(begin, errc::malformed_header,
                       "a bool is " + grouped(value) + ", expected 0 or 1");
  }
  cbor_writer(out).boolean(value != 0);
  return true;
}

// Leaves out the pair if the elements are arrays. `depth_left` is the number of arrays that may be
// nested, including this array.
bool metadata_reader::array(std::string& out, unsigned depth_left) {
  const std::uint64_t begin = in_.position();
  value_type element_type = value_type::u8;
  std::uint64_t count = 0;
  if (!type(element_type) || !in_.number(count, order_)) return false;
  if (element_type == value_type::array && depth_left <= 1) {
    return in_.fail_at(
        begin, errc::header_too_large,
        "arrays are nested more than " + grouped(std::uint64_t{array_depth_max}) + " deep");
  }
  if (count > array_elements_max || count > in_.left() / bytes_of(element_type)) {
    return in_.fail_at(
        begin, errc::header_outside_file,
        "an array of " + grouped(count) + " elements is announced, but only " +
            grouped(std::min(array_elements_max, in_.left() / bytes_of(element_type))) +
            " are possible");
  }
  const bool is_array = element_type == value_type::array;
  const bool one_by_one = is_array || element_type == value_type::string;
  // Each string or array must be skipped separately, so the number of these elements is limited.
  if (one_by_one && count > elements_left_) {
    return in_.fail_at(begin, errc::header_too_large,
                       "an array of " + grouped(count) + (is_array ? " arrays" : " strings") +
                           " is announced, the limit is " + grouped(elements_left_));
  }
  if (one_by_one) elements_left_ -= count;
  if (is_array) left_out_ = nested_ = true;
  cbor_writer(out).array(count);
  // The JSON text of a bool can be six times as long as its CBOR. The text of a float can be even
  // longer, so pair() checks the text again.
  const std::uint64_t growth = one_by_one ? 1 : 6;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!value(element_type, out, depth_left - 1)) return false;
    if (fits(growth * out.size())) continue;
    out.clear();
    if (!one_by_one) return in_.skip((count - i - 1) * bytes_of(element_type));
  }
  return true;
}

bool metadata_reader::value(value_type element_type, std::string& out, unsigned depth_left) {
  switch (element_type) {
    case value_type::u8: return number<std::uint8_t>(out);
    case value_type::i8: return number<std::int8_t>(out);
    case value_type::u16: return number<std::uint16_t>(out);
    case value_type::i16: return number<std::int16_t>(out);
    case value_type::u32: return number<std::uint32_t>(out);
    case value_type::i32: return number<std::int32_t>(out);
    case value_type::f32: return number<float>(out);
    case value_type::boolean: return boolean(out);
    case value_type::u64: return number<std::uint64_t>(out);
    case value_type::i64: return number<std::int64_t>(out);
    case value_type::f64: return number<double>(out);
    case value_type::array: return array(out, depth_left);
    case value_type::string: break;
  }
  std::string_view text;
  if (!string(json_escape_bytes, text)) return false;
  cbor_writer(out).text(as_utf8(text));
  return true;
}

bool metadata_reader::set_alignment(value_type element_type, std::uint64_t& alignment) {
  const std::uint64_t begin = in_.position();
  if (element_type != value_type::u32) {
    return in_.fail_at(begin, errc::malformed_header, "general.alignment must be a u32");
  }
  std::uint32_t value = 0;
  if (!in_.number(value, order_)) return false;
  if (!std::has_single_bit(value)) {
    return in_.fail_at(begin, errc::malformed_header,
                       "general.alignment is " + grouped(value) + ", expected a power of two");
  }
  alignment = value;
  return true;
}

bool metadata_reader::pair(std::string& key, attribute& out, std::uint64_t& alignment,
                           bool& left_out) {
  const std::uint64_t begin = in_.position();
  left_out_ = nested_ = false;
  elements_left_ = gguf_strings_max;
  std::size_t bytes = 0;
  std::string_view name;
  if (!length(key_bytes_max, bytes) || !in_.text(bytes, name)) return false;
  if (name.empty() || utf8_valid_bytes(name) != name.size()) {
    return in_.fail_at(
        begin, errc::malformed_header,
        name.empty() ? "a key is empty" : "the key '" + printable(name) + "' is not UTF-8");
  }
  key = name;
  value_type element_type = value_type::u8;
  if (!type(element_type)) return false;
  std::string encoded;
  if (key == alignment_key) {
    if (!set_alignment(element_type, alignment)) return false;
    cbor_writer(encoded).unsigned_integer(alignment);
  } else if (element_type == value_type::string) {
    if (!string(1, name)) return false;
    // Each byte that is not UTF-8 becomes three bytes, so the limit is checked again.
    const std::string text = as_utf8(name);
    if (fits(text.size())) cbor_writer(encoded).text(text);
  } else if (!value(element_type, encoded, array_depth_max)) {
    return false;
  }
  if (!left_out_) out = attribute::cbor(std::move(encoded));
  left_out = left_out_ || !fits(out.text().size());
  if (!left_out) used_ += out.text().size();
  return true;
}

}  // namespace

bool read_gguf_metadata(input_cursor& in, const gguf_pairs& pairs, description_budget& budget,
                        file_entries& entries, std::uint64_t& alignment) {
  metadata_reader reader(in, pairs);
  std::unordered_set<std::string> keys;
  std::string key;
  attribute value;
  for (std::uint64_t i = 0; i < pairs.count; ++i) {
    const std::uint64_t begin = in.position();
    bool left_out = false;
    if (!reader.pair(key, value, alignment, left_out)) return false;
    if (!budget.take_attribute(key.size(), left_out ? 0 : value.text().size())) {
      return in.fail_at(begin, errc::header_too_large, budget.cause());
    }
    if (!keys.insert(key).second) {
      return in.fail_at(begin, errc::malformed_header, "duplicate key '" + printable(key) + "'");
    }
    if (left_out) {
      entries.notes.push_back(
          "the value of '" + printable(key) + "' is left out, because " +
          (reader.is_nested()
               ? "it has arrays inside an array"
               : "metadata is limited to " + grouped(gguf_metadata_bytes_max) + " bytes"));
    } else {
      entries.metadata.emplace_back(key, std::move(value));
    }
  }
  return true;
}

}  // namespace ringload::inline v0
