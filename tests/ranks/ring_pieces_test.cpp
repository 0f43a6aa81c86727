// SPDX-License-Identifier: Apache-2.0

// The order of the pieces of a ring, for each rank.

#include "ranks/ring_pieces.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ringload;
using namespace ringload::detail;

namespace {

// "0+3 3+1 | 4+2": offset+bytes of each piece, from `first` until `last`.
std::string text_of(const ring_pieces& ring, const std::byte* base, std::size_t first,
                    std::size_t last) {
  std::string text;
  for (std::size_t i = first; i < last; ++i) {
    text += (text.empty() ? "" : " ") + std::to_string(ring.pieces[i].data() - base) + "+" +
            std::to_string(ring.pieces[i].size());
  }
  return text;
}

}  // namespace

TEST_CASE("ring: a rank sends its own pieces first, then what it has received") {
  std::vector<std::byte> bytes(20);
  const std::vector<gathered_part> parts = {{{bytes.data(), 7}, 0},
                                            {{bytes.data() + 7, 3}, 2},
                                            {{bytes.data() + 10, 4}, 1},
                                            {{bytes.data() + 14, 1}, 0},
                                            {{bytes.data() + 15, 0}, 1}};
  const auto received = [&](std::uint32_t rank) {
    const ring_pieces ring = ring_pieces_of(parts, rank, 3, 4);
    return text_of(ring, bytes.data(), ring.receive_begin, ring.pieces.size());
  };
  const auto sent = [&](std::uint32_t rank) {
    const ring_pieces ring = ring_pieces_of(parts, rank, 3, 4);
    return text_of(ring, bytes.data(), 0, ring.send_end);
  };
  CHECK(sent(0) == "0+4 4+3 14+1 7+3");
  CHECK(received(1) == sent(0));
  CHECK(sent(1) == "10+4 0+4 4+3 14+1");
  CHECK(received(2) == sent(1));
  CHECK(sent(2) == "7+3 10+4");
  CHECK(received(0) == sent(2));
}

TEST_CASE("ring: one rank sends nothing, and parts without bytes have no pieces") {
  std::vector<std::byte> bytes(5);
  const std::vector<gathered_part> parts = {{bytes, 0}, {{bytes.data(), 0}, 0}};
  const ring_pieces alone = ring_pieces_of(parts, 0, 1, 4);
  CHECK(alone.pieces.size() == 2);
  CHECK(alone.receive_begin == 2);
  CHECK(alone.send_end == 0);
  const ring_pieces other = ring_pieces_of(parts, 1, 2, 5);
  CHECK(other.receive_begin == 0);
  CHECK(other.send_end == 0);
  CHECK(text_of(other, bytes.data(), 0, other.pieces.size()) == "0+5");
}
