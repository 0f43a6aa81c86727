// SPDX-License-Identifier: Apache-2.0
#pragma once

// One stored stream from its first byte to its last: takes its bytes in order as they arrive, gives
// the decoded ones in order, exactly as many as were promised, and checks what can be checked.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/fault.hpp"
#include "decoding/decoder.hpp"
#include "decoding/fletcher32.hpp"
#include "decoding/stored_stream.hpp"

namespace ringload::inline v0 {

// Where decoded bytes go. They come in order.
class decoded_output {
 public:
  virtual ~decoded_output() = default;

  // Where the next bytes may be put; never empty while bytes are still to come.
  virtual std::span<std::byte> room() = 0;
  // So many have been put there, from the beginning.
  virtual void filled(std::size_t bytes) = 0;
};

class stream_decoder {
 public:
  // `element_bytes` as make_decoder takes it. `into` says what decoded_output::room() returns.
  static result<stream_decoder> make(const stored_stream& what, unsigned element_bytes,
                                     decoded_into into = decoded_into::pieces);

  // The next stored bytes. Faults say what is wrong with the stream; the caller adds whose it is.
  result<void> take(std::span<const std::byte> in, decoded_output& out);
  // After the last: whether all came, and is what it should be.
  result<void> finish(decoded_output& out);

 private:
  stream_decoder(const stored_stream& what, std::unique_ptr<decoder> with)
      : what_(what), decoder_(std::move(with)) {}

  result<void> decode(std::span<const std::byte> in, decoded_output& out);
  result<void> nothing_more(std::span<const std::byte>& in);
  void give_unshuffled(decoded_output& out) const;

  stored_stream what_;
  std::unique_ptr<decoder> decoder_;
  std::uint64_t taken_ = 0;  // Of the stored bytes.
  std::uint64_t given_ = 0;  // Of the decoded ones.
  bool ended_ = false;
  std::uint32_t crc32_ = 0;
  fletcher32 sum_;
  std::uint32_t stated_sum_ = 0;
  std::vector<std::byte> shuffled_;  // The whole chunk, where it is shuffled.
};

}  // namespace ringload::inline v0
