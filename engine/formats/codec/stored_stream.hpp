// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stored bytes and how to decode them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace ringload::inline v0 {

// How the bytes of a stream are stored.
enum class codec : std::uint8_t {
  raw,      // Unchanged bytes.
  deflate,  // RFC 1951 without a wrapper: a member of a zip file.
  zlib,     // RFC 1950: a chunk of HDF5.
  zstd,     // RFC 8878: one or more frames.
  varint,   // Base-128 integers of protocol buffers, each cut to the width of an element.
};

struct chain_filter;

// A run of stored bytes that is decoded from its beginning to its end.
struct stored_stream {
  std::uint32_t file = 0;           // 0: the parsed file; n: the nth file beside it.
  std::uint64_t offset = 0;         // From the beginning of that file.
  std::uint64_t bytes = 0;          // Stored bytes.
  std::uint64_t decoded_bytes = 0;  // The exact number of decoded bytes; for raw, equal to `bytes`.
  codec how = codec::raw;
  // Null, or HDF5 filters in an order that the members here cannot express. Then `how` is zlib even
  // if zlib is not among the filters.
  std::shared_ptr<const std::vector<chain_filter>> chain;
  std::uint8_t shuffle_bytes = 0;  // The width over which HDF5's shuffle is undone; 0: no shuffle.
  bool fletcher32 = false;  // The stored bytes end with HDF5's checksum of the bytes before it.
  std::optional<std::uint32_t> crc32;  // CRC-32 of the decoded bytes, as in zip files.
  // The decoded bytes themselves, if the header contained them in another form. Then no file is
  // read.
  std::shared_ptr<const std::vector<std::byte>> in_memory;
};

}  // namespace ringload::inline v0
