// SPDX-License-Identifier: Apache-2.0
#pragma once

// Inflates what a parser must read itself: the header inside a deflated member, a small record.
// Tensors are inflated while they are loaded, elsewhere.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/fault.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

// Keeps its memory from stream to stream.
class inflater {
 public:
  // The first `count` bytes that the deflated bytes [offset, offset + stored_bytes) of the file
  // give: fewer where they end before. Valid until the next call. `complete` says whether the
  // stream ended there, with its last stored byte.
  struct beginning {
    std::span<const std::byte> bytes;
    bool complete = false;
  };
  result<beginning> read(input& from, std::uint64_t offset, std::uint64_t stored_bytes,
                         std::size_t count);

  // What was read last, in its own memory.
  std::vector<std::byte> take(std::size_t count);

 private:
  std::vector<std::byte> out_;
};

}  // namespace ringload::inline v0
