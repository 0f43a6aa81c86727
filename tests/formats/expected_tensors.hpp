// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares the result of a parser for a file of tests/data with that of the reference library:
// FILE.list and FILE.checksums, which tests/data/listing.py describes.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <ringload/verify.hpp>
#include <string>
#include <vector>

#include "binary_text.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/codec/stream_decoder.hpp"
#include "formats/shape.hpp"
#include "support/safetensors_text.hpp"

namespace ringload::testing {

inline std::string data_path(const std::string& name) {
  return std::string(RINGLOAD_TEST_DATA_DIR) + "/" + name;
}

inline std::string content_of(const std::string& path) {
  REQUIRE_MESSAGE(std::ifstream(path).good(), path);
  return file_text(path);
}

// Decodes varints. Each number is truncated to `width` bytes.
inline std::string varints_decoded(std::string_view stored, std::size_t width) {
  std::string out;
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const char c : stored) {
    value |= (static_cast<std::uint64_t>(c) & 0x7F) << shift;
    shift += 7;
    if ((static_cast<unsigned char>(c) & 0x80U) != 0) continue;
    out += number_text(value).substr(0, width);
    value = 0;
    shift = 0;
  }
  return out;
}

inline std::string inflated(const stored_stream& what, std::string_view stored) {
  struct text_output final : decoded_output {
    std::string text;
    std::size_t at = 0;

    std::span<std::byte> next_buffer() override {
      return std::as_writable_bytes(std::span(text)).subspan(at);
    }
    void filled(std::size_t bytes) override { at += bytes; }
  };
  text_output out;
  out.text.resize(what.decoded_bytes + 1);
  auto decoder = stream_decoder::make(what, 1);
  REQUIRE(decoder.has_value());
  REQUIRE(decoder->take(bytes_of(stored), out).has_value());
  REQUIRE(decoder->finish(out).has_value());
  out.text.resize(out.at);
  return out.text;
}

// The elements of a box in the order of its dimensions, the last the fastest.
inline std::string gathered(const piece& box, std::string_view decoded, std::size_t element_bytes) {
  std::string out;
  std::vector<std::uint64_t> at(box.extent.size());
  for (bool more = true; more;) {
    std::uint64_t byte = box.first_byte;
    for (std::size_t d = 0; d < at.size(); ++d) byte += at[d] * box.stride_bytes[d];
    REQUIRE(byte + element_bytes <= decoded.size());
    out += decoded.substr(byte, element_bytes);
    more = false;
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < box.extent[d]) {
        more = true;
        break;
      }
      at[d] = 0;
    }
  }
  return out;
}

// Returns the dense bytes of a tensor in one stream, as in all formats that are tested here. Empty
// for zstd.
inline std::string dense_bytes(const entry& tensor, const std::vector<std::string>& files) {
  if (tensor.stored == nullptr) return files.at(0).substr(tensor.offset, tensor.bytes);
  if (tensor.bytes == 0) return {};
  REQUIRE(tensor.stored->pieces.size() == 1);
  const piece& whole = tensor.stored->pieces[0];
  const stored_stream& from = whole.stored;
  REQUIRE(whole.extent == tensor.shape);
  std::string out;
  if (from.in_memory != nullptr) {
    out.assign(reinterpret_cast<const char*>(from.in_memory->data()), from.in_memory->size());
  } else {
    out = files.at(from.file).substr(from.offset, from.bytes);
  }
  if (from.stored_codec == codec::varint) out = varints_decoded(out, bits(tensor.dtype) / 8);
  if (from.stored_codec == codec::zstd) return {};
  if (from.stored_codec == codec::deflate) out = inflated(from, out);
  REQUIRE(out.size() == from.decoded_bytes);
  if (bits(tensor.dtype) % 8 == 0) {
    out = gathered(whole, out, bits(tensor.dtype) / 8);
  } else {
    out = out.substr(whole.first_byte, tensor.bytes);
  }
  const std::size_t unit = tensor.stored->swap_bytes;
  for (std::size_t i = 0; unit != 0 && i + unit <= out.size(); i += unit) {
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(i),
                 out.begin() + static_cast<std::ptrdiff_t>(i + unit));
  }
  return out;
}

// Names in any order.
inline void check_expected(const file_entries& found, const std::string& path,
                           const std::vector<std::string>& files) {
  std::ifstream list(path + ".list");
  REQUIRE(list.good());
  const checksum_list digests = parse_checksum_list(content_of(path + ".manifest"));
  std::size_t rows = 0;
  for (std::string row; std::getline(list, row); ++rows) {
    const std::string name = row.substr(0, row.find('\t'));
    CAPTURE(name);
    const auto at = std::ranges::find(found.tensors, name, &entry::name);
    REQUIRE(at != found.tensors.end());
    const std::string original = at->original_shape.empty() ? "" : shape_text(at->original_shape);
    CHECK(at->name + "\t" + std::string(ringload::name(at->dtype)) + "\t" + shape_text(at->shape) +
              "\t" + at->type + "\t" + original ==
          row);
    if (at->stored != nullptr && at->stored->pieces.at(0).stored.stored_codec == codec::zstd)
      continue;
    const std::string dense = dense_bytes(*at, files);
    CHECK(dense.size() == at->bytes);
    const auto wanted = std::ranges::find(digests.tensors, name, &tensor_digest::name);
    REQUIRE(wanted != digests.tensors.end());
    CHECK(number_text(crc32c(bytes_of(dense)), std::endian::big) ==
          std::string(reinterpret_cast<const char*>(wanted->bytes.data()), wanted->bytes.size()));
  }
  CHECK(rows == found.tensors.size());
  CHECK(rows > 0);
}

}  // namespace ringload::testing
