// SPDX-License-Identifier: Apache-2.0
#pragma once

// Describes stored bytes and their decoding.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace ringload::inline v0 {

enum class codec : std::uint8_t {
  raw,      // Unchanged bytes.
  deflate,  // RFC 1951 without a wrapper. Used for a member of a zip file.
  zlib,     // RFC 1950. Used for a chunk of HDF5.
  zstd,     // RFC 8878. One or more frames.
  // Base-128 integers of protocol buffers. Each integer is reduced to the width of an element.
  varint,
};

struct chain_filter;

// A range of stored bytes that is decoded from its beginning to its end.
struct stored_stream {
  // 0 for the parsed file, or n for the n-th path in file_entries::external_files.
  std::uint32_t file = 0;
  std::uint64_t offset = 0;  // From the beginning of that file.
  std::uint64_t bytes = 0;   // Number of stored bytes.
  // The exact number of decoded bytes. For the codec `raw`, this number is `bytes`, minus 4 if
  // `fletcher32` is set.
  std::uint64_t decoded_bytes = 0;
  codec stored_codec = codec::raw;
  // Filters of HDF5 in an order that the other members cannot express, or null. If `chain` is set,
  // `stored_codec` is zlib, even if zlib is not one of the filters.
  std::shared_ptr<const std::vector<chain_filter>> chain;
  // The element width of HDF5's shuffle. 0 if the bytes are not shuffled.
  std::uint8_t shuffle_bytes = 0;
  bool fletcher32 = false;  // The stored bytes end with HDF5's checksum of the preceding bytes.
  std::optional<std::uint32_t> crc32;  // CRC-32 of the decoded bytes, as in zip files.
  // The decoded bytes, if the parser has already read the stream. Null if the stream must be read
  // from the file.
  std::shared_ptr<const std::vector<std::byte>> in_memory;
};

}  // namespace ringload::inline v0
