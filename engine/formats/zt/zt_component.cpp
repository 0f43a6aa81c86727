// SPDX-License-Identifier: Apache-2.0

#include "formats/zt/zt_component.hpp"

#include <memory>
#include <string_view>
#include <utility>

#include "base/checked.hpp"
#include "base/printable.hpp"
#include "formats/shape.hpp"
#include "formats/zt/zt_dtype.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t crc32c_prefix_bytes = 9;  // The length of "crc32c:0x".
constexpr std::size_t sha256_prefix_bytes = 7;  // The length of "sha256:".

// A zstd block has at least 4 stored bytes, and at most 128 KiB of decoded bytes.
constexpr std::uint64_t zstd_block_stored_min = 4;
constexpr std::uint64_t zstd_block_bytes_max = std::uint64_t{128} << 10;

// Returns an empty text for an object that is not in a file yet.
std::string byte_text(std::uint64_t description_offset) {
  return description_offset == 0 ? "" : ", byte " + grouped(description_offset);
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

}  // namespace

fault zt_fault(const zt_object& object, const zt_component& part, errc code, std::string cause) {
  return {code,
          tensor_place(object.name) + ", component '" + printable(part.name) + "'" +
              byte_text(part.description_offset),
          std::move(cause)};
}

fault zt_fault(const zt_object& object, errc code, std::string cause) {
  return {code, tensor_place(object.name) + byte_text(object.description_offset), std::move(cause)};
}

std::optional<fault> zt_component_converter::set_digest(const zt_component& part,
                                                        entry& out) const {
  std::string_view text = part.digest;
  if (text.empty()) return std::nullopt;
  const bool is_crc = text.starts_with("crc32c:0x") || text.starts_with("crc32c:0X");
  const bool is_sha = text.starts_with("sha256:");
  if (!is_crc && !is_sha) {
    entries_.notes.push_back("the digest '" + printable(text) + "' of " +
                             tensor_place(object_.name) + " has an unknown algorithm");
    return std::nullopt;
  }
  text.remove_prefix(is_crc ? crc32c_prefix_bytes : sha256_prefix_bytes);
  auto bytes = unhexed(text);
  const std::size_t digits = is_crc ? 8 : 64;
  if (!bytes || text.size() != digits) {
    return zt_fault(object_, part, errc::malformed_header,
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

std::optional<fault> zt_component_converter::check_lengths(const zt_component& part) const {
  if (!part.zstd) {
    if (part.uncompressed_length.value_or(*part.length) == *part.length) return std::nullopt;
    return zt_fault(object_, part, errc::wrong_tensor_bytes,
                    "its uncompressed_length is " + grouped(*part.uncompressed_length) +
                        ", expected " + grouped(*part.length) +
                        ", the length of the uncompressed component");
  }
  if (part.uncompressed_length || blobs_.length_by_shape) return std::nullopt;
  return zt_fault(object_, part, errc::malformed_header,
                  "it is compressed and has no uncompressed_length");
}

std::optional<fault> zt_component_converter::set_extent(const zt_component& part,
                                                        entry& out) const {
  if (!part.dtype || !part.offset || !part.length) {
    return zt_fault(object_, part, errc::malformed_header,
                    "it must have a dtype, an offset and a length");
  }
  out.offset = *part.offset;
  if (out.offset % blobs_.alignment != 0 || out.offset < blobs_.begin) {
    return zt_fault(object_, part, errc::invalid_offsets,
                    "its offset is " + grouped(out.offset) + ", expected a multiple of " +
                        grouped(blobs_.alignment) + " past the first " + grouped(blobs_.begin) +
                        " bytes of the file");
  }
  const auto end = checked_add(out.offset, *part.length);
  if (end && *end <= blobs_.end) return std::nullopt;
  return zt_fault(object_, part, errc::extent_outside_file,
                  "its " + grouped(*part.length) + " bytes at " + grouped(out.offset) +
                      " end past the beginning of the manifest at " + grouped(blobs_.end));
}

std::optional<fault> zt_component_converter::set_type(const zt_component& part, entry& out) const {
  out.dtype = *part.dtype;
  if (part.type.empty() || zt_dtype(part.type) == out.dtype) return std::nullopt;
  out.type = part.type;
  const auto row = zt_logical_type(part.type);
  if (!row) return std::nullopt;
  if (row->stored != out.dtype) {
    return zt_fault(object_, part, errc::malformed_header,
                    "the elements of a " + part.type + " are stored as " +
                        std::string(name(row->stored)) + ", not as " +
                        std::string(name(out.dtype)));
  }
  out.dtype = row->logical;
  return std::nullopt;
}

std::optional<fault> zt_component_converter::set_common_members(const zt_component& part,
                                                                entry& out) const {
  if (auto problem = set_extent(part, out)) return problem;
  if (auto problem = check_lengths(part)) return problem;
  if (auto problem = set_type(part, out)) return problem;
  return set_digest(part, out);
}

std::optional<fault> zt_component_converter::set_flat(const zt_component& part, entry& out) const {
  if (part.zstd && !part.uncompressed_length) {
    return zt_fault(object_, part, errc::unsupported_feature,
                    "it is compressed, but its decoded length is unknown");
  }
  out.bytes = part.uncompressed_length.value_or(*part.length);
  const std::uint64_t width = bits(out.dtype) / 8;
  if (out.bytes % width != 0) {
    return zt_fault(object_, part, errc::wrong_tensor_bytes,
                    "its " + grouped(out.bytes) + " bytes are not a whole number of " +
                        std::string(name(out.dtype)));
  }
  out.shape = {out.bytes / width};
  return std::nullopt;
}

// `out.bytes` and `out.shape` must be set.
std::optional<fault> zt_component_converter::set_form(const zt_component& part, entry& out) const {
  if (out.bytes == 0 || (!part.zstd && part.swap_bytes == 0)) return std::nullopt;
  const bool longer = out.bytes / zstd_block_bytes_max > *part.length / zstd_block_stored_min;
  if (part.zstd && (longer || *part.length == 0)) {
    return zt_fault(object_, part, errc::wrong_tensor_bytes,
                    "a zstd stream of " + grouped(*part.length) + " bytes cannot decode to " +
                        grouped(out.bytes));
  }
  stored_stream stream;
  stream.offset = out.offset;
  stream.bytes = *part.length;
  stream.decoded_bytes = out.bytes;
  stream.stored_codec = part.zstd ? codec::zstd : codec::raw;
  out.stored = one_stream(std::move(stream), out.shape, bits(out.dtype) / 8, part.swap_bytes);
  return std::nullopt;
}

result<entry> zt_component_converter::shaped(const zt_component& part,
                                             std::vector<std::uint64_t> shape) const {
  entry out;
  if (auto problem = set_common_members(part, out)) return *problem;
  const auto count = element_count(shape);
  const auto bytes = count ? checked_multiply(*count, bits(out.dtype) / 8) : count;
  if (!bytes) {
    return zt_fault(object_, part, errc::size_overflow,
                    "the size of " + std::string(name(out.dtype)) + " " + shape_text(shape) +
                        " does not fit in 64 bits");
  }
  const std::uint64_t stated = part.zstd ? part.uncompressed_length.value_or(*bytes) : *part.length;
  if (stated == *bytes) {
    out.bytes = *bytes;
    out.shape = std::move(shape);
  } else if (out.type.empty() || zt_logical_type(out.type)) {
    return zt_fault(object_, part, errc::wrong_tensor_bytes,
                    std::string(name(out.dtype)) + " " + shape_text(shape) + " needs " +
                        grouped(*bytes) + " bytes, but it has " + grouped(stated));
  } else {
    // The logical type and the size of its elements are unknown. The tensor has one dimension of
    // `dtype` elements.
    out.original_shape = std::move(shape);
    if (auto problem = set_flat(part, out)) return *problem;
  }
  if (auto problem = set_form(part, out)) return *problem;
  return out;
}

result<entry> zt_component_converter::flat(const zt_component& part) const {
  entry out;
  if (auto problem = set_common_members(part, out)) return *problem;
  if (auto problem = set_flat(part, out)) return *problem;
  if (auto problem = set_form(part, out)) return *problem;
  return out;
}

}  // namespace ringload::inline v0
