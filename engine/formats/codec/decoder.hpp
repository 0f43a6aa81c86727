// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decodes stored bytes piece by piece in bounded memory. One decoder for each codec.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/fault.hpp"
#include "formats/codec/stored_stream.hpp"

namespace ringload::inline v0 {

inline fault malformed_stream(std::string cause) {
  return {errc::malformed_stream, "", std::move(cause)};
}

// The output memory of a stream.
enum class decoded_into : std::uint8_t {
  pieces,  // Each call may have another output buffer, which the caller may reuse.

  // All outputs are parts of one buffer, and each call receives the whole rest of the buffer. The
  // caller must keep the decoded bytes in the buffer, so that a codec can refer to them.
  one_memory,
};

class decoder {
 public:
  struct progress {
    std::size_t taken = 0;  // Consumed bytes of the input.
    std::size_t given = 0;  // Written bytes of the output.
    bool ended = false;     // The stored form is complete.
  };

  virtual ~decoder() = default;

  // Decodes until the input is used up, the output is full, or the end is reached. Input and output
  // may be small. If there is no progress on either side, the decoder needs more input. Fails with
  // errc::malformed_stream if the bytes do not belong to the codec.
  virtual result<progress> decode(std::span<const std::byte> in, std::span<std::byte> out) = 0;
};

// `element_bytes` is the width to which varint cuts: 1, 2, 4 or 8. Fails with
// errc::codec_unavailable if the library was built without the codec. With
// decoded_into::one_memory, which must not be empty, the output of calls after the memory is full
// is not used.
result<std::unique_ptr<decoder>> make_decoder(codec stored_codec, unsigned element_bytes,
                                              decoded_into into = decoded_into::pieces);

// One function for each library, in a file of its own.
result<std::unique_ptr<decoder>> make_deflate_decoder(bool zlib_wrapper);
result<std::unique_ptr<decoder>> make_zstd_decoder(decoded_into into);

// CRC-32 as in zip files. `before` is the CRC of the bytes before `bytes`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) noexcept;

}  // namespace ringload::inline v0
