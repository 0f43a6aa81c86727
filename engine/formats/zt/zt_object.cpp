// SPDX-License-Identifier: Apache-2.0
#include "formats/zt/zt_object.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/shape.hpp"
#include "formats/text/cbor_reader.hpp"
#include "formats/zt/zt.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t crc32c_prefix_bytes = 9;  // "crc32c:0x"
constexpr std::size_t sha256_prefix_bytes = 7;  // "sha256:"

// A block of zstd has at least 4 bytes and makes at most 128 KiB.
constexpr std::uint64_t zstd_block_stored_min = 4;
constexpr std::uint64_t zstd_block_bytes_max = std::uint64_t{128} << 10;

struct dtype_row {
  std::string_view short_name;
  std::string_view long_name;
  ringload::dtype dtype;
};
constexpr auto dtypes = std::to_array<dtype_row>({
    {"f64", "float64", dtype::f64},
    {"f32", "float32", dtype::f32},
    {"f16", "float16", dtype::f16},
    {"bf16", "bfloat16", dtype::bf16},
    {"i64", "int64", dtype::i64},
    {"i32", "int32", dtype::i32},
    {"i16", "int16", dtype::i16},
    {"i8", "int8", dtype::i8},
    {"u64", "uint64", dtype::u64},
    {"u32", "uint32", dtype::u32},
    {"u16", "uint16", dtype::u16},
    {"u8", "uint8", dtype::u8},
    {"bool", "bool", dtype::boolean},
});

// Logical types with a dtype of their own, and their stored types.
struct logical_row {
  std::string_view name;
  ringload::dtype stored;
  ringload::dtype logical;
};
constexpr auto logical_types = std::to_array<logical_row>({
    {"f8_e4m3fn", dtype::u8, dtype::f8_e4m3fn},
    {"f8_e5m2", dtype::u8, dtype::f8_e5m2},
    {"f8_e4m3fnuz", dtype::u8, dtype::f8_e4m3fnuz},
    {"f8_e5m2fnuz", dtype::u8, dtype::f8_e5m2fnuz},
    {"f8_e8m0fnu", dtype::u8, dtype::f8_e8m0},
    {"complex64", dtype::f32, dtype::c64},
    {"complex128", dtype::f64, dtype::c128},
});

const logical_row* logical_type(std::string_view name) noexcept {
  const auto found = std::ranges::find(logical_types, name, &logical_row::name);
  return found == logical_types.end() ? nullptr : &*found;
}

// Returns the offset in the manifest as text. An object to be written has no offset yet.
std::string byte_text(std::uint64_t manifest_byte) {
  return manifest_byte == 0 ? "" : ", byte " + grouped(manifest_byte);
}

fault fault_in(const zt_object& object, const zt_component& part, errc code, std::string cause) {
  return {code,
          tensor_place(object.name) + ", component '" + printable(part.name) + "'" +
              byte_text(part.manifest_byte),
          std::move(cause)};
}

fault fault_in(const zt_object& object, errc code, std::string cause) {
  return {code, tensor_place(object.name) + byte_text(object.manifest_byte), std::move(cause)};
}

std::optional<std::vector<std::byte>> unhexed(std::string_view digits) {
  std::vector<std::byte> out;
  std::uint8_t byte = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const char c = digits[i];
    const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool is_letter = lower >= 'a' && lower <= 'f';
    if (!is_letter && (lower < '0' || lower > '9')) return std::nullopt;
    const int value = is_letter ? lower - 'a' + 10 : lower - '0';
    byte = static_cast<std::uint8_t>(byte << 4 | value);
    if (i % 2 == 1) out.push_back(std::byte{byte});
  }
  return out;
}

// Converts the components of one object to tensors without names.
class converter {
 public:
  converter(const zt_object& object, const zt_blobs& blobs, file_entries& found) noexcept
      : object_(object), blobs_(blobs), found_(found) {}

  // Returns a tensor with the shape in the manifest.
  result<entry> shaped(const zt_component& part, std::vector<std::uint64_t> shape) const;
  // Returns a tensor of one dimension with all elements of the component.
  result<entry> flat(const zt_component& part) const;

 private:
  std::optional<fault> set_digest(const zt_component& part, entry& out) const;
  std::optional<fault> check_lengths(const zt_component& part) const;
  std::optional<fault> set_extent(const zt_component& part, entry& out) const;
  std::optional<fault> set_type(const zt_component& part, entry& out) const;
  std::optional<fault> begin(const zt_component& part, entry& out) const;
  std::optional<fault> set_flat(const zt_component& part, entry& out) const;
  std::optional<fault> set_form(const zt_component& part, entry& out) const;

  const zt_object& object_;
  const zt_blobs& blobs_;
  file_entries& found_;
};

std::optional<fault> converter::set_digest(const zt_component& part, entry& out) const {
  std::string_view text = part.digest;
  if (text.empty()) return std::nullopt;
  const bool is_crc = text.starts_with("crc32c:0x") || text.starts_with("crc32c:0X");
  const bool is_sha = text.starts_with("sha256:");
  if (!is_crc && !is_sha) {
    found_.notes.push_back("the digest '" + printable(text) + "' of " + tensor_place(object_.name) +
                           " is of an unknown kind");
    return std::nullopt;
  }
  text.remove_prefix(is_crc ? crc32c_prefix_bytes : sha256_prefix_bytes);
  auto bytes = unhexed(text);
  const std::size_t digits = is_crc ? 8 : 64;
  if (!bytes || text.size() != digits) {
    return fault_in(object_, part, errc::malformed_header,
                    "the digest '" + printable(part.digest) + "' is malformed, expected " +
                        grouped(digits) + " hexadecimal digits");
  }
  auto digest = std::make_shared<stored_digest>();
  digest->algorithm = is_crc ? digest_algorithm::crc32c : digest_algorithm::sha256;
  digest->bytes = std::move(*bytes);
  digest->stream.offset = *part.offset;
  digest->stream.bytes = digest->stream.decoded_bytes = *part.length;
  out.digest = std::move(digest);
  return std::nullopt;
}

std::optional<fault> converter::check_lengths(const zt_component& part) const {
  if (!part.zstd) {
    if (part.uncompressed_length.value_or(*part.length) == *part.length) return std::nullopt;
    return fault_in(object_, part, errc::wrong_tensor_bytes,
                    "its uncompressed_length is " + grouped(*part.uncompressed_length) +
                        ", expected " + grouped(*part.length) +
                        ", the length of the uncompressed component");
  }
  if (part.uncompressed_length || blobs_.length_by_shape) return std::nullopt;
  return fault_in(object_, part, errc::malformed_header,
                  "it is compressed and has no uncompressed_length");
}

std::optional<fault> converter::set_extent(const zt_component& part, entry& out) const {
  if (!part.dtype || !part.offset || !part.length) {
    return fault_in(object_, part, errc::malformed_header,
                    "it must have a dtype, an offset and a length");
  }
  out.offset = *part.offset;
  if (out.offset % blobs_.alignment != 0 || out.offset < blobs_.begin) {
    return fault_in(object_, part, errc::invalid_offsets,
                    "its offset is " + grouped(out.offset) + ", expected a multiple of " +
                        grouped(blobs_.alignment) + " past the first " + grouped(blobs_.begin) +
                        " bytes of the file");
  }
  const auto end = checked_add(out.offset, *part.length);
  if (end && *end <= blobs_.end) return std::nullopt;
  return fault_in(object_, part, errc::extent_outside_file,
                  "its " + grouped(*part.length) + " bytes at " + grouped(out.offset) +
                      " end past the beginning of the manifest at " + grouped(blobs_.end));
}

std::optional<fault> converter::set_type(const zt_component& part, entry& out) const {
  out.dtype = *part.dtype;
  if (part.type.empty() || zt_dtype(part.type) == out.dtype) return std::nullopt;
  out.type = part.type;
  const logical_row* const row = logical_type(part.type);
  if (row == nullptr) return std::nullopt;
  if (row->stored != out.dtype) {
    return fault_in(object_, part, errc::malformed_header,
                    "the elements of a " + part.type + " are stored as " +
                        std::string(name(row->stored)) + ", not as " +
                        std::string(name(out.dtype)));
  }
  out.dtype = row->logical;
  return std::nullopt;
}

std::optional<fault> converter::begin(const zt_component& part, entry& out) const {
  if (auto problem = set_extent(part, out)) return problem;
  if (auto problem = check_lengths(part)) return problem;
  if (auto problem = set_type(part, out)) return problem;
  return set_digest(part, out);
}

std::optional<fault> converter::set_flat(const zt_component& part, entry& out) const {
  if (part.zstd && !part.uncompressed_length) {
    return fault_in(object_, part, errc::unsupported_feature,
                    "it is compressed, but its decoded length is unknown");
  }
  out.bytes = part.uncompressed_length.value_or(*part.length);
  const std::uint64_t width = bits(out.dtype) / 8;
  if (out.bytes % width != 0) {
    return fault_in(object_, part, errc::wrong_tensor_bytes,
                    "its " + grouped(out.bytes) + " bytes are not a whole number of " +
                        std::string(name(out.dtype)));
  }
  out.shape = {out.bytes / width};
  return std::nullopt;
}

// `out` must have its bytes and its shape.
std::optional<fault> converter::set_form(const zt_component& part, entry& out) const {
  if (out.bytes == 0 || (!part.zstd && part.swap_bytes == 0)) return std::nullopt;
  const bool longer = out.bytes / zstd_block_bytes_max > *part.length / zstd_block_stored_min;
  if (part.zstd && (longer || *part.length == 0)) {
    return fault_in(object_, part, errc::wrong_tensor_bytes,
                    "a zstd stream of " + grouped(*part.length) + " bytes cannot decode to " +
                        grouped(out.bytes));
  }
  stored_stream stream;
  stream.offset = out.offset;
  stream.bytes = *part.length;
  stream.decoded_bytes = out.bytes;
  stream.how = part.zstd ? codec::zstd : codec::raw;
  out.stored = one_stream(std::move(stream), out.shape, bits(out.dtype) / 8, part.swap_bytes);
  return std::nullopt;
}

result<entry> converter::shaped(const zt_component& part, std::vector<std::uint64_t> shape) const {
  entry out;
  if (auto problem = begin(part, out)) return *problem;
  const auto count = element_count(shape);
  const auto bytes = count ? checked_multiply(*count, bits(out.dtype) / 8) : count;
  if (!bytes) {
    return fault_in(object_, part, errc::size_overflow,
                    "the size of " + std::string(name(out.dtype)) + " " + shape_text(shape) +
                        " does not fit in 64 bits");
  }
  const std::uint64_t stated = part.zstd ? part.uncompressed_length.value_or(*bytes) : *part.length;
  if (stated == *bytes) {
    out.bytes = *bytes;
    out.shape = std::move(shape);
  } else if (out.type.empty() || logical_type(out.type) != nullptr) {
    return fault_in(object_, part, errc::wrong_tensor_bytes,
                    std::string(name(out.dtype)) + " " + shape_text(shape) + " needs " +
                        grouped(*bytes) + " bytes, and it has " + grouped(stated));
  } else {
    // The size of an element of an unknown type is unknown, so the bytes are returned unchanged.
    out.original_shape = std::move(shape);
    if (auto problem = set_flat(part, out)) return *problem;
  }
  if (auto problem = set_form(part, out)) return *problem;
  return out;
}

result<entry> converter::flat(const zt_component& part) const {
  entry out;
  if (auto problem = begin(part, out)) return *problem;
  if (auto problem = set_flat(part, out)) return *problem;
  if (auto problem = set_form(part, out)) return *problem;
  return out;
}

const zt_component* component_named(const zt_object& object, std::string_view name) noexcept {
  const auto found = std::ranges::find(*object.components, name, &zt_component::name);
  return found == object.components->end() ? nullptr : &*found;
}

fault lacking(const zt_object& object, std::string_view name) {
  return fault_in(
      object, errc::malformed_header,
      "a " + *object.format + " object must have the component '" + std::string(name) + "'");
}

std::optional<std::vector<std::uint64_t>> shape_of(const attribute& value) {
  memory_input from(std::as_bytes(std::span<const char>(value.encoded())));
  input_cursor in(from, 0, value.encoded().size());
  cbor_reader cbor(in);
  std::vector<std::uint64_t> shape;
  if (!cbor.enter_array()) return std::nullopt;
  while (cbor.next_item()) {
    if (shape.size() == zt_rank_max || !cbor.unsigned_integer(shape.emplace_back())) {
      return std::nullopt;
    }
  }
  return cbor.failed() ? std::nullopt : std::optional(std::move(shape));
}

// Sets the type of bytes whose attributes name quantisation blocks or packed elements, see
// zt_type_keys.
void take_type_attributes(entry& tensor) {
  if (!tensor.type.empty() || tensor.dtype != dtype::u8 || tensor.shape.size() != 1) return;
  const auto value_of = [&](std::string_view key) -> const attribute* {
    const auto found = std::ranges::find(tensor.attributes, key, &attributes::value_type::first);
    return found == tensor.attributes.end() ? nullptr : &found->second;
  };
  const attribute* const shape = value_of(zt_original_shape_key);
  for (const std::string_view key : zt_type_keys) {
    const attribute* const type = value_of(key);
    if (shape == nullptr || type == nullptr || !type->is_text()) continue;
    auto original = shape_of(*shape);
    if (!original) continue;
    tensor.type = type->text();
    tensor.original_shape = std::move(*original);
    return;
  }
}

std::optional<fault> add_dense(zt_object& object, const converter& part_converter,
                               file_entries& found) {
  const zt_component* const data = component_named(object, "data");
  if (data == nullptr) return lacking(object, "data");
  if (object.components->size() > 1) {
    found.notes.push_back(tensor_place(object.name) +
                          " is dense, so only its component 'data' is loaded");
  }
  auto tensor = part_converter.shaped(*data, std::move(*object.shape));
  if (!tensor) return tensor.error();
  tensor->name = std::move(object.name);
  tensor->attributes = std::move(object.attributes);
  take_type_attributes(*tensor);
  found.tensors.push_back(std::move(*tensor));
  return std::nullopt;
}

bool is_integer(dtype type) noexcept {
  switch (type) {
    case dtype::i8:
    case dtype::i16:
    case dtype::i32:
    case dtype::i64:
    case dtype::u8:
    case dtype::u16:
    case dtype::u32:
    case dtype::u64: return true;
    default: return false;
  }
}

// Checks the types and sizes of the parts of a sparse object.
std::optional<fault> check_sparse(const zt_object& object, const std::vector<entry>& parts,
                                  file_entries& found) {
  const bool csr = *object.format == "sparse_csr";
  const auto part = [&](std::string_view name) -> const entry* {
    const auto found_part = std::ranges::find(parts, name, &entry::name);
    return found_part == parts.end() ? nullptr : &*found_part;
  };
  for (const std::string_view index_name : csr ? std::vector<std::string_view>{"indices", "indptr"}
                                               : std::vector<std::string_view>{"coords"}) {
    const entry* const index = part(index_name);
    if (index == nullptr) return lacking(object, index_name);
    if (index->dtype == dtype::u64) continue;
    const std::string cause = "the component '" + std::string(index_name) + "' is " +
                              std::string(name(index->dtype)) + ", expected u64";
    if (!object.from_file || !is_integer(index->dtype)) {
      return fault_in(object, errc::malformed_header, cause);
    }
    found.notes.push_back(tensor_place(object.name) + ": " + cause +
                          ": the component is loaded, but its indices are not checked");
  }
  const entry* const values = part("values");
  if (values == nullptr) return lacking(object, "values");
  const auto wrong = [&](std::string_view name, std::uint64_t expected) {
    return fault_in(object, errc::wrong_tensor_bytes,
                    "the component '" + std::string(name) + "' has " +
                        grouped(part(name)->shape[0]) + " elements, expected " + grouped(expected) +
                        " for " + grouped(values->shape[0]) + " values of " +
                        shape_text(*object.shape));
  };
  const std::uint64_t count = values->shape[0];
  if (!csr) {
    const auto expected = checked_multiply(count, object.shape->size());
    if (expected == part("coords")->shape[0]) return std::nullopt;
    return wrong("coords", expected.value_or(0));
  }
  if (object.shape->size() != 2) {
    return fault_in(object, errc::malformed_header, "a sparse_csr object must have two dimensions");
  }
  const auto rows = checked_add(object.shape->front(), 1);
  if (rows != part("indptr")->shape[0]) return wrong("indptr", rows.value_or(0));
  if (count != part("indices")->shape[0]) return wrong("indices", count);
  return std::nullopt;
}

std::optional<fault> add_parts(zt_object& object, const converter& part_converter,
                               file_entries& found) {
  std::vector<entry> parts;
  for (const zt_component& part : *object.components) {
    auto tensor = part_converter.flat(part);
    if (!tensor) return tensor.error();
    tensor->name = part.name;
    parts.push_back(std::move(*tensor));
  }
  composite whole;
  if (*object.format == "sparse_csr" || *object.format == "sparse_coo") {
    if (auto problem = check_sparse(object, parts, found)) return problem;
    whole.type = std::ranges::find(parts, "values", &entry::name)->type;
  }
  for (entry& part : parts) {
    // The coordinates of dimension 0 come before the coordinates of dimension 1.
    if (*object.format == "sparse_coo" && part.name == "coords") {
      const std::uint64_t rank = object.shape->size();
      part.shape = {rank, rank == 0 ? 0 : part.shape[0] / rank};
      if (part.stored != nullptr) {
        part.stored = one_stream(part.stored->pieces[0].stored, part.shape, bits(part.dtype) / 8,
                                 part.stored->swap_bytes);
      }
    }
    whole.parts.push_back(part.name);
    part.name = object.name + "/" + part.name;
    found.tensors.push_back(std::move(part));
  }
  whole.name = std::move(object.name);
  whole.layout = std::move(*object.format);
  whole.shape = std::move(*object.shape);
  whole.attributes = std::move(object.attributes);
  found.composites.push_back(std::move(whole));
  return std::nullopt;
}

std::optional<ringload::dtype> dtype_of(std::string_view name,
                                        std::string_view dtype_row::* column) {
  const auto found = std::ranges::find(dtypes, name, column);
  return found == dtypes.end() ? std::nullopt : std::optional(found->dtype);
}

}  // namespace

std::optional<ringload::dtype> zt_dtype(std::string_view short_name) noexcept {
  return dtype_of(short_name, &dtype_row::short_name);
}

std::optional<ringload::dtype> zt_0_1_dtype(std::string_view long_name) noexcept {
  return dtype_of(long_name, &dtype_row::long_name);
}

std::optional<zt_element> zt_element_of(ringload::dtype type) noexcept {
  const auto row = std::ranges::find(logical_types, type, &logical_row::logical);
  if (row != logical_types.end()) return zt_element{row->stored, row->name};
  if (zt_dtype_name(type).empty()) return std::nullopt;
  return zt_element{type, {}};
}

std::string_view zt_dtype_name(ringload::dtype stored) noexcept {
  const auto found = std::ranges::find(dtypes, stored, &dtype_row::dtype);
  return found == dtypes.end() ? std::string_view() : found->short_name;
}

std::optional<fault> add_zt_object(zt_object object, const zt_blobs& blobs, file_entries& found) {
  if (!object.format || !object.shape || !object.components) {
    return fault_in(object, errc::malformed_header,
                    "it must have a shape, a format and components");
  }
  // The converter reads the object. Members that are moved from are not read afterwards.
  const zt_object& whole = object;
  const converter part_converter(whole, blobs, found);
  return *object.format == "dense" ? add_dense(object, part_converter, found)
                                   : add_parts(object, part_converter, found);
}

}  // namespace ringload::inline v0
