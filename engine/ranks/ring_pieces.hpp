// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides how the bytes of group::all_gather() travel around a ring: each rank sends to the next
// rank and receives from the previous rank. All ranks send and receive at the same time.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ringload/group.hpp>
#include <span>
#include <vector>

namespace ringload::inline v0::detail {

// With 3 ranks, the pieces of rank 1 are in the order of their roots: 1, 0, 2. Rank 1 begins with
// its own pieces, and receives the pieces of the roots 0 and 2 in this order. It sends the pieces
// of the roots 1 and 0. It does not send the pieces of root 2, because rank 2 is the next rank.
struct ring_pieces {
  std::vector<std::span<std::byte>> pieces;  // None is empty.
  std::size_t own = 0;                       // pieces[own] is the first piece that is received.
  std::size_t sent = 0;                      // pieces[sent] is the first piece that is not sent.
};

// Each piece has at most `bytes_max` bytes. Two neighbours divide the parts into the same pieces.
inline ring_pieces ring_pieces_of(std::span<const gathered_part> parts, std::uint32_t rank,
                                  std::uint32_t ranks, std::size_t bytes_max) {
  ring_pieces out;
  for (std::uint32_t distance = 0; distance < ranks; ++distance) {
    const std::uint32_t root = (rank + ranks - distance) % ranks;
    if (distance + 1 == ranks) out.sent = out.pieces.size();
    for (const gathered_part& part : parts) {
      if (part.root != root) continue;
      for (std::size_t offset = 0; offset < part.bytes.size(); offset += bytes_max) {
        const std::size_t bytes = std::min(bytes_max, part.bytes.size() - offset);
        out.pieces.push_back(part.bytes.subspan(offset, bytes));
      }
    }
    if (distance == 0) out.own = out.pieces.size();
  }
  return out;
}

}  // namespace ringload::inline v0::detail
