// SPDX-License-Identifier: Apache-2.0

// Values of attributes, which are kept as the CBOR that they become.

#include <algorithm>
#include <cstdlib>
#include <ringload/writer.hpp>

#include "formats/cbor_reader.hpp"
#include "formats/cbor_writer.hpp"
#include "formats/json_number.hpp"
#include "formats/json_reader.hpp"
#include "formats/utf8.hpp"
#include "pipeline/writing_job.hpp"

namespace ringload::inline v0 {

namespace {

constexpr unsigned attribute_depth_max = 64;

[[noreturn]] void refuse(const char* kind, std::size_t position, const std::string& cause) {
  throw error(errc::malformed_header,
              std::string(kind) + " of an attribute, byte " + grouped(position), cause);
}

void number(cbor_writer& to, std::string_view text) {
  const bool negative = text.starts_with('-');
  const auto size = json_unsigned(negative ? text.substr(1) : text);
  if (size && !negative) return to.unsigned_integer(*size);
  if (size && *size > 0 && *size <= std::uint64_t{1} << 63U) {
    return to.integer(static_cast<std::int64_t>(~*size + 1));
  }
  to.floating(std::strtod(std::string(text).c_str(), nullptr));
}

// Items come before their number does, so they are written apart.
bool value(json_reader& in, std::string& out, unsigned deep);

bool object(json_reader& in, std::string& out, unsigned deep) {
  std::string pairs;
  std::uint64_t count = 0;
  std::string_view key;
  if (!in.enter_object()) return false;
  for (; in.next_key(key); ++count) {
    cbor_writer(pairs).text(key);
    if (!value(in, pairs, deep)) return false;
  }
  cbor_writer(out).map(count);
  out += pairs;
  return !in.failed();
}

bool array(json_reader& in, std::string& out, unsigned deep) {
  std::string items;
  std::uint64_t count = 0;
  if (!in.enter_array()) return false;
  for (; in.next_item(); ++count) {
    if (!value(in, items, deep)) return false;
  }
  cbor_writer(out).array(count);
  out += items;
  return !in.failed();
}

bool value(json_reader& in, std::string& out, unsigned deep) {
  if (deep == 0)
    return in.fail("more than " + grouped(attribute_depth_max) + " values inside each other");
  cbor_writer to(out);
  std::string_view text;
  switch (in.peek()) {
    case '{': return object(in, out, deep - 1);
    case '[': return array(in, out, deep - 1);
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

attribute::attribute() { cbor_writer(encoded_).null(); }
attribute::attribute(std::string_view text) {
  if (utf8_valid_bytes(text) != text.size()) {
    refuse("text", utf8_valid_bytes(text), "the text is not UTF-8");
  }
  cbor_writer(encoded_).text(text);
}
attribute::attribute(bool value) { cbor_writer(encoded_).boolean(value); }
attribute::attribute(double value) { cbor_writer(encoded_).floating(value); }
attribute::attribute(bool negative, std::uint64_t argument) {
  cbor_writer to(encoded_);
  if (negative) {
    to.integer(static_cast<std::int64_t>(~argument));
  } else {
    to.unsigned_integer(argument);
  }
}

attribute attribute::json(std::string_view text) {
  if (utf8_valid_bytes(text) != text.size()) {
    refuse("JSON", utf8_valid_bytes(text), "the text is not UTF-8");
  }
  attribute out;
  out.encoded_.clear();
  json_reader in(text);
  if (!value(in, out.encoded_, attribute_depth_max) || !in.end())
    refuse("JSON", in.position(), in.cause());
  return out;
}

attribute attribute::cbor(std::string encoded) {
  memory_input from(std::as_bytes(std::span<const char>(encoded)));
  input_cursor in(from, 0, encoded.size());
  std::string read;
  if (!cbor_reader(in).json(read, zt_attribute_bytes_max)) {
    throw error(in.error().code, "CBOR of an attribute, " + in.error().where, in.error().cause);
  }
  if (in.left() > 0) refuse("CBOR", encoded.size() - in.left(), "bytes are left over");
  attribute out;
  out.encoded_ = std::move(encoded);
  return out;
}

namespace detail {

void attribute_list::set(std::string key, std::string encoded) {
  for (auto& [known, value] : all_) {
    if (known != key) continue;
    value = std::move(encoded);
    return;
  }
  all_.emplace_back(std::move(key), std::move(encoded));
}

bool attribute_list::has(std::string_view key) const noexcept {
  return std::ranges::any_of(all_, [key](const auto& each) { return each.first == key; });
}

std::string attribute_list::encoded() const {
  if (all_.empty()) return {};
  auto sorted = all_;
  std::ranges::sort(sorted);
  std::string out;
  cbor_writer to(out);
  to.map(sorted.size());
  for (const auto& [key, value] : sorted) {
    to.text(key);
    to.encoded(value);
  }
  return out;
}

result<void> attribute_list::read(std::string_view encoded_map) {
  if (encoded_map.empty()) return {};
  memory_input from(std::as_bytes(std::span<const char>(encoded_map)));
  input_cursor in(from, 0, encoded_map.size());
  cbor_reader cbor(in);
  if (!cbor.enter_map()) return in.error();
  std::string key;
  while (cbor.next_key(key)) {
    const std::uint64_t begin = cbor.position();
    if (!cbor.skip_value()) return in.error();
    if (!has(key)) set(key, std::string(encoded_map.substr(begin, cbor.position() - begin)));
  }
  if (cbor.failed()) return in.error();
  return {};
}

}  // namespace detail

}  // namespace ringload::inline v0
