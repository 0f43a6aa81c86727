// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of decoders. A decoder decodes stored bytes in several calls, and uses bounded
// memory. Each codec has its own decoder.

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

// Specifies the output memory that the caller passes to decode().
enum class decoded_into : std::uint8_t {
  pieces,  // Each call may pass another output buffer. The caller may reuse the buffers.

  // Consecutive calls fill one buffer. Each call must pass all bytes of the buffer that are not yet
  // written. The caller must not change the decoded bytes in the buffer, because a codec may read
  // the decoded bytes again.
  one_memory,
};

class decoder {
 public:
  struct progress {
    std::size_t taken = 0;     // Used input bytes.
    std::size_t produced = 0;  // Written output bytes.
    // True if the codec's end marker was reached. The codec raw has no end marker. With zstd, true
    // at the end of each frame, although another frame may follow. With varint, true at the end of
    // each integer, although another integer may follow.
    bool ended = false;
  };

  virtual ~decoder() = default;

  // Decodes until all input is used, the output is full, or the end is reached. Input and output
  // may be small. If a call uses no input and writes no output although `out` is not empty, the
  // decoder needs more input or has ended. Returns errc::malformed_stream if the bytes cannot be
  // decoded.
  virtual result<progress> decode(std::span<const std::byte> in, std::span<std::byte> out) = 0;
};

// `element_bytes` is the width of an element for varint: 1, 2, 4 or 8. Returns
// errc::codec_unavailable if the library was built without the codec. With
// decoded_into::one_memory, the buffer must not be empty. After the buffer is full, the caller may
// call decode() again to check that the stream ends. This call may pass any memory for the output,
// and the caller must ignore the contents of this memory.
result<std::unique_ptr<decoder>> make_decoder(codec stored_codec, unsigned element_bytes,
                                              decoded_into into = decoded_into::pieces);

result<std::unique_ptr<decoder>> make_deflate_decoder(bool zlib_wrapper);
result<std::unique_ptr<decoder>> make_zstd_decoder(decoded_into into);

// Returns the CRC-32 that zip files use. `before` is the CRC-32 of the preceding bytes, or 0 if
// `bytes` is the beginning.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before) noexcept;

}  // namespace ringload::inline v0
