// SPDX-License-Identifier: Apache-2.0

// What all groups have in common: calls of many ranks, made of messages between two.

#include <algorithm>
#include <cstring>
#include <ringload/group.hpp>

namespace ringload::inline v0 {

namespace {

// A rank hands a piece on while the next one arrives.
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

}  // namespace

group::~group() = default;

device_kind group::memory() const noexcept { return device_kind::host; }

// A binomial tree: of 8 ranks, counted from the root,
//
//   0 -> 4    0 -> 2, 4 -> 6    0 -> 1, 2 -> 3, 4 -> 5, 6 -> 7
//
// so each receives once, and the root sends log2(8) times.
void group::broadcast(std::span<std::byte> bytes, std::uint32_t root) {
  const std::uint32_t ranks = size();
  const std::uint32_t own = (rank() + ranks - root) % ranks;
  const auto real = [&](std::uint32_t from_root) { return (from_root + root) % ranks; };
  std::uint32_t reach = 1;  // A power of two: the distance at which this rank has received.
  while (reach < ranks && (own & reach) == 0) reach <<= 1U;
  for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
    const auto piece = bytes.subspan(at, std::min(piece_bytes, bytes.size() - at));
    if (own != 0) receive(piece, real(own - reach));
    for (std::uint32_t step = reach >> 1U; step > 0; step >>= 1U) {
      if (own + step < ranks) send(piece, real(own + step));
    }
  }
}

void group::scatter(std::span<const std::span<const std::byte>> parts, std::span<std::byte> into,
                    std::uint32_t root) {
  if (rank() != root) {
    if (!into.empty()) receive(into, root);
    return;
  }
  for (std::uint32_t r = 0; r < size(); ++r) {
    if (r != root && !parts[r].empty()) send(parts[r], r);
  }
  if (!into.empty()) std::memmove(into.data(), parts[root].data(), into.size());
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
