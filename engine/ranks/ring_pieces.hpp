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

// The pieces of all parts, in the order in which one rank sends or receives them. For example, with
// 3 ranks, rank 1 has the pieces of the roots 1, 0 and 2, in this order. Rank 1 sends its own
// pieces first. Then rank 1 receives the pieces of root 0 and forwards them. Last, rank 1 receives
// the pieces of root 2, and does not forward them, because rank 2 is the next rank.
struct ring_pieces {
  std::vector<std::span<std::byte>> pieces;  // No piece is empty.
  std::size_t receive_begin = 0;             // Index of the first piece that this rank receives.
  std::size_t send_end = 0;  // Index of the first piece that this rank does not send.
};

// Each piece has at most `bytes_max` bytes. All ranks divide a part into the same pieces.
inline ring_pieces ring_pieces_of(std::span<const gathered_part> parts, std::uint32_t rank,
                                  std::uint32_t ranks, std::size_t bytes_max) {
  ring_pieces out;
  for (std::uint32_t distance = 0; distance < ranks; ++distance) {
    const std::uint32_t root = (rank + ranks - distance) % ranks;
    if (distance + 1 == ranks) out.send_end = out.pieces.size();
    for (const gathered_part& part : parts) {
      if (part.root != root) continue;
      for (std::size_t offset = 0; offset < part.bytes.size(); offset += bytes_max) {
        const std::size_t bytes = std::min(bytes_max, part.bytes.size() - offset);
        out.pieces.push_back(part.bytes.subspan(offset, bytes));
      }
    }
    if (distance == 0) out.receive_begin = out.pieces.size();
  }
  return out;
}

}  // namespace ringload::inline v0::detail
