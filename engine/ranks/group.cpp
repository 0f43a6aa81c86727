// SPDX-License-Identifier: Apache-2.0

// The calls of all ranks that every group implements with messages between two ranks.

#include <algorithm>
#include <cstring>
#include <ringload/group.hpp>

namespace ringload::inline v0 {

namespace {

// A rank forwards one piece while the next one arrives.
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

}  // namespace

group::~group() = default;

device_kind group::memory() const noexcept { return device_kind::host; }

// A binomial tree. With 8 ranks, counted from the root:
//
//   0 -> 4    0 -> 2, 4 -> 6    0 -> 1, 2 -> 3, 4 -> 5, 6 -> 7
//
// Each rank receives once, and the root sends log2(8) times.
void group::broadcast(std::span<std::byte> bytes, std::uint32_t root) {
  const std::uint32_t ranks = size();
  const std::uint32_t position = (rank() + ranks - root) % ranks;
  const auto real = [&](std::uint32_t from_root) { return (from_root + root) % ranks; };
  std::uint32_t reach = 1;  // A power of two: the distance at which this rank receives.
  while (reach < ranks && (position & reach) == 0) reach <<= 1U;
  for (std::size_t offset = 0; offset < bytes.size(); offset += piece_bytes) {
    const auto piece = bytes.subspan(offset, std::min(piece_bytes, bytes.size() - offset));
    if (position != 0) receive(piece, real(position - reach));
    for (std::uint32_t step = reach >> 1U; step > 0; step >>= 1U) {
      if (position + step < ranks) send(piece, real(position + step));
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
