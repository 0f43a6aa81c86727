// SPDX-License-Identifier: Apache-2.0

// The default implementations of the collective calls of `group`. The defaults need only send() and
// receive(). Groups over sockets override only all_gather(). Groups over MPI override all calls
// except barrier(), but all_gather() still calls its default for a single part, or if all ranks run
// on one machine.

#include <algorithm>
#include <cstring>
#include <ringload/group.hpp>
#include <vector>

#include "ranks/broadcast_route.hpp"

namespace ringload::inline v0 {

namespace {

// The size of the pieces in which a message is sent along a tree. A rank forwards a piece while the
// next piece arrives.
constexpr std::size_t tree_piece_bytes = std::size_t{1} << 20;
// Along a chain, the pieces are smaller, because each rank delays the message by the time of one
// piece.
constexpr std::size_t chain_piece_bytes = std::size_t{1} << 17;

// The neighbours of a rank in a broadcast, as positions. A position is a rank number counted from
// the root, which has position 0.
struct broadcast_route {
  std::uint32_t sender = 0;  // Unused by the root.
  std::vector<std::uint32_t> receivers;
  std::size_t piece_bytes = 0;
};

broadcast_route chain_route(std::uint32_t position, std::uint32_t ranks) {
  broadcast_route route = {position - 1, {}, chain_piece_bytes};
  if (position + 1 < ranks) route.receivers.push_back(position + 1);
  return route;
}

// Returns the route along a binomial tree. With 8 ranks, there are three rounds:
//
//   0 -> 4    0 -> 2, 4 -> 6    0 -> 1, 2 -> 3, 4 -> 5, 6 -> 7
//
// Each rank receives once. The root sends log2(8) = 3 times.
broadcast_route tree_route(std::uint32_t position, std::uint32_t ranks) {
  // The difference between the positions of this rank and its sender. A power of two.
  std::uint32_t reach = 1;
  while (reach < ranks && (position & reach) == 0) reach <<= 1U;
  broadcast_route route = {position - reach, {}, tree_piece_bytes};
  for (std::uint32_t step = reach >> 1U; step > 0; step >>= 1U) {
    if (position + step < ranks) route.receivers.push_back(position + step);
  }
  return route;
}

}  // namespace

group::~group() = default;

device group::memory() const noexcept { return host(); }

group& group::host_group() noexcept { return *this; }

void group::check_ranks() {}

void group::broadcast(std::span<std::byte> bytes, std::uint32_t root) {
  const std::uint32_t ranks = size();
  const std::uint32_t position = (rank() + ranks - root) % ranks;
  const auto rank_at = [&](std::uint32_t from_root) { return (from_root + root) % ranks; };
  const broadcast_route route = detail::is_chain_faster(bytes.size(), ranks, chain_piece_bytes)
                                    ? chain_route(position, ranks)
                                    : tree_route(position, ranks);
  for (std::size_t offset = 0; offset < bytes.size(); offset += route.piece_bytes) {
    const auto piece = bytes.subspan(offset, std::min(route.piece_bytes, bytes.size() - offset));
    if (position != 0) receive(piece, rank_at(route.sender));
    for (const std::uint32_t receiver : route.receivers) send(piece, rank_at(receiver));
  }
}

void group::all_gather(std::span<const gathered_part> parts) {
  for (const gathered_part& part : parts) broadcast(part.bytes, part.root);
}

void group::scatter(std::span<const std::span<const std::byte>> parts,
                    std::span<std::byte> received, std::uint32_t root) {
  if (rank() != root) {
    if (!received.empty()) receive(received, root);
    return;
  }
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (r != root && !parts[r].empty()) send(parts[r], r);
  }
  if (!received.empty()) std::memmove(received.data(), parts[root].data(), received.size());
}

void group::barrier() {
  std::byte token{};
  if (rank() != 0) {
    send({&token, 1}, 0);
  } else {
    for (std::uint32_t r = 1; r < size(); ++r) receive({&token, 1}, r);
  }
  broadcast({&token, 1}, 0);
}

}  // namespace ringload::inline v0
