// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides whether a broadcast sends its bytes along a chain of ranks or along a tree of ranks.

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ringload::inline v0::detail {

// Returns true if a chain takes less time than a tree. Assumes that the links between the ranks
// limit the speed. The root of a tree sends all bytes ceil(log2(ranks)) times. In a chain, each
// rank sends all bytes once, and the last rank begins `ranks - 2` pieces later than the second
// rank.
constexpr bool is_chain_faster(std::size_t bytes, std::uint32_t ranks,
                               std::size_t piece_bytes) noexcept {
  if (ranks < 3) return false;
  const std::size_t chain_bytes = bytes + (ranks - 2) * piece_bytes;
  return chain_bytes < bytes * static_cast<std::size_t>(std::bit_width(ranks - 1));
}

}  // namespace ringload::inline v0::detail
