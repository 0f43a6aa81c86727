// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decodes one stored stream. The caller must pass the stored bytes in order. The decoder writes
// exactly the expected number of decoded bytes, and verifies checksums.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "formats/codec/decoder.hpp"
#include "formats/codec/fletcher32.hpp"
#include "formats/codec/stored_stream.hpp"

namespace ringload::inline v0 {

// Receives decoded bytes in order.
class decoded_output {
 public:
  virtual ~decoded_output() = default;

  // Returns the memory for the next decoded bytes. May return an empty span only if all decoded
  // bytes were written.
  virtual std::span<std::byte> next_buffer() = 0;
  // Called after `bytes` bytes were written to the start of the buffer that next_buffer() returned.
  virtual void filled(std::size_t bytes) = 0;
};

class stream_decoder {
 public:
  // `element_bytes` is passed to make_decoder(). `into` describes the memory of
  // decoded_output::next_buffer().
  static result<stream_decoder> make(const stored_stream& stream, unsigned element_bytes,
                                     decoded_into into = decoded_into::pieces);

  // Decodes the next stored bytes. A fault describes the error in the stream. The caller must add
  // the place of the stream.
  result<void> take(std::span<const std::byte> in, decoded_output& out);
  // Must be called after the last bytes. Checks that the stream is complete and correct.
  result<void> finish(decoded_output& out);

 private:
  stream_decoder(const stored_stream& stream, std::unique_ptr<decoder> stream_codec)
      : stream_(stream), decoder_(std::move(stream_codec)) {}

  result<void> decode(std::span<const std::byte> in, decoded_output& out);
  result<void> expect_end(std::span<const std::byte>& in);
  void write_unshuffled(decoded_output& out) const;

  stored_stream stream_;
  std::unique_ptr<decoder> decoder_;
  std::uint64_t taken_ = 0;     // Number of stored bytes that were used.
  std::uint64_t produced_ = 0;  // Number of decoded bytes that were written.
  bool ended_ = false;
  std::uint32_t crc32_ = 0;
  fletcher32 sum_;
  std::uint32_t stated_sum_ = 0;
  // The decoded chunk before unshuffling. Empty if the chunk is not shuffled.
  std::vector<std::byte> shuffled_;
};

}  // namespace ringload::inline v0
