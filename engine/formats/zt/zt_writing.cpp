// SPDX-License-Identifier: Apache-2.0

#include "formats/zt/zt_writing.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "formats/text/cbor_writer.hpp"
#include "formats/zt/zt_dtype.hpp"
#include "formats/zt/zt_index.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::uint64_t offset_max = std::numeric_limits<std::int64_t>::max();

std::string hex(std::span<const std::byte> bytes, std::string_view digits) {
  std::string out;
  for (const std::byte byte : bytes) {
    out += digits[std::to_integer<unsigned>(byte) >> 4U];
    out += digits[std::to_integer<unsigned>(byte) & 0xFU];
  }
  return out;
}

template <class Named>
std::vector<const Named*> by_name(std::span<const Named> items) {
  std::vector<const Named*> sorted;
  sorted.reserve(items.size());
  for (const Named& item : items) sorted.push_back(&item);
  std::ranges::sort(sorted, {}, [](const Named* item) -> std::string_view { return item->name; });
  return sorted;
}

void write_component(cbor_writer& writer, const zt_component& part) {
  const std::uint64_t pairs =
      3U + (part.type.empty() ? 0U : 1U) + (part.zstd ? 2U : 0U) + (part.digest.empty() ? 0U : 1U);
  writer.map(pairs);
  writer.text("dtype");
  writer.text(zt_dtype_name(*part.dtype));
  if (!part.type.empty()) {
    writer.text("type");
    writer.text(part.type);
  }
  writer.text("offset");
  writer.unsigned_integer(*part.offset);
  writer.text("length");
  writer.unsigned_integer(*part.length);
  if (part.zstd) {
    writer.text("uncompressed_length");
    writer.unsigned_integer(*part.uncompressed_length);
    writer.text("encoding");
    writer.text("zstd");
  }
  if (!part.digest.empty()) {
    writer.text("digest");
    writer.text(part.digest);
  }
}

void write_object(cbor_writer& writer, const zt_object& object) {
  writer.map(object.encoded_attributes.empty() ? 3 : 4);
  writer.text("shape");
  writer.array(object.shape->size());
  for (const std::uint64_t size : *object.shape) writer.unsigned_integer(size);
  writer.text("format");
  writer.text(*object.format);
  if (!object.encoded_attributes.empty()) {
    writer.text("attributes");
    writer.encoded(object.encoded_attributes);
  }
  writer.text("components");
  writer.map(object.components->size());
  for (const zt_component* part : by_name(std::span<const zt_component>(*object.components))) {
    writer.text(part->name);
    write_component(writer, *part);
  }
}

void append_number(std::string& out, std::uint64_t value) {
  for (unsigned shift = 0; shift < 64; shift += 8) out += static_cast<char>(value >> shift & 0xFFU);
}

bool is_utf8(std::string_view text) { return utf8_valid_bytes(text) == text.size(); }

}  // namespace

std::string zt_digest_text(digest_algorithm algorithm, std::span<const std::byte> digest) {
  if (algorithm == digest_algorithm::crc32c) return "crc32c:0x" + hex(digest, "0123456789ABCDEF");
  return "sha256:" + hex(digest, "0123456789abcdef");
}

std::optional<std::uint64_t> zt_blob_offset(std::uint64_t end, std::uint64_t alignment) noexcept {
  const auto padded = checked_add(std::max<std::uint64_t>(end, zt_magic.size()), alignment - 1);
  if (!padded || *padded > offset_max) return std::nullopt;
  return round_down(*padded, alignment);
}

result<void> check_zt_object(const zt_object& object) {
  const auto bad_text = [&object](const char* subject) {
    return fault{errc::header_not_utf8, tensor_place(object.name),
                 std::string(subject) + " is not UTF-8"};
  };
  if (!is_utf8(object.name)) return bad_text("its name");
  if (object.format && !is_utf8(*object.format)) return bad_text("its format");
  for (const zt_component& part : object.components.value_or(std::vector<zt_component>())) {
    if (!is_utf8(part.name) || !is_utf8(part.type)) return bad_text("the name of a component");
  }
  const zt_blob_rules anywhere = {zt_magic.size(), offset_max, zt_alignment};
  file_entries entries;
  if (auto problem = add_zt_object(object, anywhere, entries)) return *problem;
  return {};
}

result<std::string> zt_tail(std::string_view version, std::string_view encoded_attributes,
                            std::span<const zt_object> objects) {
  const auto sorted = by_name(objects);
  const auto duplicate = std::ranges::adjacent_find(
      sorted, [](const zt_object* a, const zt_object* b) { return a->name == b->name; });
  if (duplicate != sorted.end()) {
    return fault{errc::duplicate_tensor, tensor_place((*duplicate)->name), "duplicate tensor name"};
  }
  std::string out;
  cbor_writer writer(out);
  writer.map(encoded_attributes.empty() ? 2 : 3);
  writer.text("version");
  writer.text(version);
  if (!encoded_attributes.empty()) {
    writer.text("attributes");
    writer.encoded(encoded_attributes);
  }
  writer.text("objects");
  writer.map(sorted.size());
  for (const zt_object* object : sorted) {
    writer.text(object->name);
    write_object(writer, *object);
  }
  if (out.size() > zt_index_bytes_max) {
    return fault{errc::header_too_large, "",
                 "the manifest would have " + grouped(out.size()) + " bytes, expected at most " +
                     grouped(zt_index_bytes_max)};
  }
  append_number(out, out.size());
  out += zt_magic;
  return out;
}

}  // namespace ringload::inline v0
