// SPDX-License-Identifier: Apache-2.0
#pragma once

// From stored bytes to decoded ones, piece by piece and in bounded memory: one codec each.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/fault.hpp"
#include "decoding/stored_stream.hpp"

namespace ringload::inline v0 {

inline fault malformed_stream(std::string cause) {
  return {errc::malformed_stream, "", std::move(cause)};
}

// Where a stream's decoded bytes are put.
enum class decoded_into : std::uint8_t {
  pieces,      // The output of a call may be anywhere, and need not stay.
  one_memory,  // All outputs are one memory: that of a call is all that is left of it. What has
               // been put there stays, so that a codec which looks back need not keep a copy.
};

class decoder {
 public:
  struct progress {
    std::size_t taken = 0;  // Of the input's bytes, from its beginning.
    std::size_t given = 0;  // Into the output, from its beginning.
    bool ended = false;     // The stored form says that this was all.
  };

  virtual ~decoder() = default;

  // Goes on until the input is used up, the output is full, or the end is reached. Neither need be
  // large. Without progress on either side more input is needed. errc::malformed_stream where the
  // bytes are none of this codec.
  virtual result<progress> decode(std::span<const std::byte> in, std::span<std::byte> out) = 0;
};

// `element_bytes` is the width that varint cuts to: 1, 2, 4 or 8. errc::codec_unavailable where
// this build has been made without the codec. With decoded_into::one_memory, which is not empty,
// the output of a call that comes after it is full is not used.
result<std::unique_ptr<decoder>> make_decoder(codec how, unsigned element_bytes,
                                              decoded_into into = decoded_into::pieces);

// For each library one function, in a file that exists for it.
result<std::unique_ptr<decoder>> make_deflate_decoder(bool zlib_wrapper);
result<std::unique_ptr<decoder>> make_zstd_decoder(decoded_into into);

// CRC-32 as zip files have it; with `before`, of what that was the CRC of and then `bytes`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) noexcept;

}  // namespace ringload::inline v0
