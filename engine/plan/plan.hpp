// SPDX-License-Identifier: Apache-2.0
#pragma once

// A plan says, before any byte moves, which reads will be made and where each byte will go.
//
//   file      |..aaaaaaaaaaa|bb.cccccc....|     extents wanted
//   reads     |------0------|------1------|     aligned, at most one slot long
//   copies       0: a          1: b  2: c       of a staged read; a straight read has none
//
// A straight read lands in the arena itself. That is possible where the distance of a tensor from a
// block's beginning may be the same in the arena as in the file; the rest is staged: it is read
// into a slot and copied from there. So is a tensor that is converted as it lands: its copies do
// it.

#include <cstdint>
#include <vector>

#include "core/block.hpp"
#include "core/float_bits.hpp"

namespace ringload::inline v0 {

struct read_op {
  static constexpr std::uint64_t staged = ~std::uint64_t{0};

  std::uint64_t file_offset;   // A multiple of block_bytes.
  std::uint64_t arena_offset;  // Where a straight read lands, a multiple too; or `staged`.
  std::uint32_t file;
  std::uint32_t bytes;  // What we ask for: a multiple of block_bytes, at most one slot.
  std::uint32_t
      bytes_needed;  // What must arrive: up to the last wanted byte. Then the file may end.
  std::uint32_t copies_begin;  // This read feeds plan::copies[copies_begin, copies_end).
  std::uint32_t copies_end;
  std::uint32_t tensors_begin;  // Of the tensors [tensors_begin, tensors_end) those that land the
  std::uint32_t tensors_end;    // same way, straight or staged, have bytes in this read.

  bool straight() const noexcept { return arena_offset != staged; }
};
static_assert(sizeof(read_op) == 48);

struct copy_op {
  std::uint64_t arena_offset;
  std::uint32_t slot_offset;
  std::uint32_t bytes;  // In the slot. If they are converted, whole elements.
  conversion as = {};
};
static_assert(sizeof(copy_op) == 24);

// Where a tensor lies, and what must happen before it has landed.
struct placement {
  std::uint64_t arena_offset;
  std::uint32_t reads_begin;  // Its bytes come with plan::reads[reads_begin, reads_end): none for a
  std::uint32_t reads_end;    // tensor of 0 bytes.
  bool straight;
  conversion as = {};
};

struct plan {
  std::vector<read_op> reads;  // In file order; of each file first the straight ones.
  std::vector<copy_op> copies;
  std::vector<placement> tensors;  // In the order of the extents that were given.
  std::uint64_t arena_bytes = 0;   // At least one block, so that an empty tensor has an address.
};

}  // namespace ringload::inline v0
