// SPDX-License-Identifier: Apache-2.0

// A metadata value of a checkpoint, stored as CBOR and as JSON text.

#include <locale.h>
#include <stdlib.h>

#include <new>
#include <ringload/attribute.hpp>
#include <ringload/error.hpp>
#include <span>
#include <utility>

#include "base/utf8.hpp"
#include "formats/text/cbor_reader.hpp"
#include "formats/text/cbor_writer.hpp"
#include "formats/text/json_number.hpp"
#include "formats/text/json_reader.hpp"
#include "formats/text/json_text.hpp"

namespace ringload::inline v0 {

namespace {

constexpr unsigned attribute_depth_max = 64;
// Six times the limit for metadata of GGUF, ONNX and .zt, because escapes can make a text six times
// as long.
constexpr std::size_t attribute_text_bytes_max = std::size_t{96} << 20;

[[noreturn]] void refuse(const char* kind, std::size_t position, const std::string& cause) {
  throw error(errc::malformed_header,
              std::string(kind) + " of an attribute, byte " + grouped(position), cause);
}

// Unlike strtod(), does not depend on the program's locale, which may have a decimal comma.
double double_of(const std::string& text) {
  static const ::locale_t plain = ::newlocale(LC_NUMERIC_MASK, "C", nullptr);
  if (plain == nullptr) throw std::bad_alloc();
  return ::strtod_l(text.c_str(), nullptr, plain);
}

void number(cbor_writer& writer, std::string_view text) {
  const bool negative = text.starts_with('-');
  const auto size = json_unsigned(negative ? text.substr(1) : text);
  if (size && !negative) return writer.unsigned_integer(*size);
  if (size && *size > 0 && *size <= std::uint64_t{1} << 63U) {
    return writer.integer(static_cast<std::int64_t>(~*size + 1));
  }
  writer.floating(double_of(std::string(text)));
}

// CBOR states the number of items before the items. In JSON, this number is known only after the
// last item. Therefore items are first written to a separate string.
bool value(json_reader& in, std::string& out, unsigned depth_left);

bool object(json_reader& in, std::string& out, unsigned depth_left) {
  std::string pairs;
  std::uint64_t count = 0;
  std::string_view key;
  if (!in.enter_object()) return false;
  for (; in.next_key(key); ++count) {
    cbor_writer(pairs).text(key);
    if (!value(in, pairs, depth_left)) return false;
  }
  cbor_writer(out).map(count);
  out += pairs;
  return !in.failed();
}

bool array(json_reader& in, std::string& out, unsigned depth_left) {
  std::string items;
  std::uint64_t count = 0;
  if (!in.enter_array()) return false;
  for (; in.next_item(); ++count) {
    if (!value(in, items, depth_left)) return false;
  }
  cbor_writer(out).array(count);
  out += items;
  return !in.failed();
}

bool value(json_reader& in, std::string& out, unsigned depth_left) {
  if (depth_left == 0)
    return in.fail("more than " + grouped(attribute_depth_max) + " nested values");
  cbor_writer to(out);
  std::string_view text;
  switch (in.peek()) {
    case '{': return object(in, out, depth_left - 1);
    case '[': return array(in, out, depth_left - 1);
    case '"':
      if (!in.string(text)) return false;
      to.text(text);
      return true;
    case 'n':
      if (!in.null()) return false;
      to.null();
      return true;
    case 't':
    case 'f': to.boolean(in.peek() == 't'); return in.skip_value(1);
    default:
      if (!in.number(text)) return false;
      number(to, text);
      return true;
  }
}

}  // namespace

attribute::attribute() : text_("null") { cbor_writer(encoded_).null(); }
attribute::attribute(std::string_view text) : text_(text), is_text_(true) {
  if (utf8_valid_bytes(text) != text.size()) {
    refuse("text", utf8_valid_bytes(text), "the text is not UTF-8");
  }
  cbor_writer(encoded_).text(text);
}
attribute::attribute(bool value) : text_(value ? "true" : "false") {
  cbor_writer(encoded_).boolean(value);
}
attribute::attribute(double value) {
  cbor_writer(encoded_).floating(value);
  append_json_number(text_, value);
}
attribute::attribute(bool negative, std::uint64_t argument) {
  cbor_writer to(encoded_);
  if (negative) {
    to.integer(static_cast<std::int64_t>(~argument));
    append_json_number(text_, static_cast<std::int64_t>(~argument));
  } else {
    to.unsigned_integer(argument);
    append_json_number(text_, argument);
  }
}

attribute attribute::json(std::string_view text) {
  if (utf8_valid_bytes(text) != text.size()) {
    refuse("JSON", utf8_valid_bytes(text), "the text is not UTF-8");
  }
  std::string encoded;
  json_reader in(text);
  if (!value(in, encoded, attribute_depth_max) || !in.end())
    refuse("JSON", in.position(), in.cause());
  return cbor(std::move(encoded));
}

attribute attribute::cbor(std::string encoded) {
  memory_input bytes(std::as_bytes(std::span<const char>(encoded)));
  input_cursor in(bytes, 0, encoded.size());
  cbor_reader cbor(in);
  attribute out;
  out.text_.clear();
  out.is_text_ = cbor.is_text();
  if (!(out.is_text_ ? cbor.text(out.text_) : cbor.json(out.text_, attribute_text_bytes_max))) {
    throw error(in.error().code, "CBOR of an attribute, " + in.error().where(), in.error().cause());
  }
  if (in.left() > 0)
    refuse("CBOR", encoded.size() - in.left(), "expected the end of the CBOR value");
  out.encoded_ = std::move(encoded);
  return out;
}

}  // namespace ringload::inline v0
