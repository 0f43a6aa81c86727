// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stored bytes, and what must be done to have the bytes that were meant.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace ringload::inline v0 {

// How the bytes of a stream are stored.
enum class codec : std::uint8_t {
  raw,      // As they are.
  deflate,  // RFC 1951 without a wrapper: a member of a zip file.
  zlib,     // RFC 1950: a chunk of HDF5.
  zstd,     // RFC 8878: one or more frames.
  varint,   // Base-128 integers of protocol buffers, each cut to the width of an element.
};

struct chain_filter;

// A run of stored bytes that is decoded from its beginning to its end.
struct stored_stream {
  std::uint32_t file = 0;           // 0: the parsed file; n: the nth of the files beside it.
  std::uint64_t offset = 0;         // From the beginning of that file.
  std::uint64_t bytes = 0;          // Stored.
  std::uint64_t decoded_bytes = 0;  // Exactly so many come out of it; where it is raw, `bytes`.
  codec how = codec::raw;
  // Null, or HDF5's filters in another order than the fields here have; `how` is zlib then, whether
  // or not zlib is among them.
  std::shared_ptr<const std::vector<chain_filter>> chain;
  std::uint8_t shuffle_bytes = 0;  // HDF5's shuffle is undone over elements this wide; 0: none.
  bool fletcher32 = false;         // The stored bytes end with HDF5's checksum of those before it.
  std::optional<std::uint32_t> crc32;  // Of the decoded bytes, as zip files have it.
  // The decoded bytes themselves, where the header held them in a form of its own. No file is read
  // then.
  std::shared_ptr<const std::vector<std::byte>> in_memory;
};

}  // namespace ringload::inline v0
