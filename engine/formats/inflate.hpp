// SPDX-License-Identifier: Apache-2.0
#pragma once

// Inflates what a parser must read itself: the header inside a deflated member, a small record.
// Tensors are inflated while they are loaded, elsewhere.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/fault.hpp"
#include "formats/input.hpp"

namespace ringload::inline v0 {

// Can be used for many streams, one after the other, and keeps its memory for all of them.
class inflater {
 public:
  inflater();
  ~inflater();
  inflater(const inflater&) = delete;
  inflater& operator=(const inflater&) = delete;

  // The first `count` bytes that the deflated bytes [offset, offset + stored_bytes) of the file
  // give: fewer where they end before. Valid until the next call. `complete` says whether the
  // stream ended there, with its last stored byte.
  struct beginning {
    std::span<const std::byte> bytes;
    bool complete = false;
  };
  result<beginning> read(input& from, std::uint64_t offset, std::uint64_t stored_bytes,
                         std::size_t count);

 private:
  struct state;
  std::unique_ptr<state> state_;
  std::vector<std::byte> out_;
};

// The checksum of zip files.
std::uint32_t crc32_of(std::span<const std::byte> bytes) noexcept;

}  // namespace ringload::inline v0
