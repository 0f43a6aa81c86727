// SPDX-License-Identifier: Apache-2.0
#pragma once

// Inflates the bytes that a parser needs: the header inside a deflated member, or a small member. A
// load inflates its tensors with other code: the decoders of formats/codec.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

// Decodes deflated streams one after another into one buffer.
class inflater {
 public:
  // `bytes` has the first `count` decoded bytes, or fewer bytes if the stream ends earlier. `bytes`
  // is valid until the next call. `complete` is true if `bytes` has all decoded bytes and no stored
  // byte follows the stream.
  struct beginning {
    std::span<const std::byte> bytes;
    bool complete = false;
  };
  // Decodes the stored bytes [offset, offset + stored_bytes) of the file.
  result<beginning> read(input& from, std::uint64_t offset, std::uint64_t stored_bytes,
                         std::size_t count);

  // Returns the first `count` bytes of the last read(), and moves the buffer to the caller.
  std::vector<std::byte> take(std::size_t count);

 private:
  std::vector<std::byte> out_;
};

}  // namespace ringload::inline v0
