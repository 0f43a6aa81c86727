// SPDX-License-Identifier: Apache-2.0

// Several threads encode chunks, and the frames are returned in the order of the chunks.

#include "save/zt/frame_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ringload;

namespace {

void push(frame_queue& queue, std::size_t bytes, char value, bool last) {
  const std::span<std::byte> room = queue.next_buffer(bytes);
  REQUIRE(room.size() == bytes);
  std::ranges::fill(room, static_cast<std::byte>(value));
  queue.push(3, last);
}

// The frame of the same chunk from a single encoder.
std::vector<std::byte> encoded(std::size_t bytes, char value) {
  const std::vector<std::byte> chunk(bytes, static_cast<std::byte>(value));
  std::vector<std::byte> frame;
  auto encoder = zstd_frame_encoder::make(3);
  REQUIRE(encoder.has_value());
  REQUIRE((*encoder)->encode(chunk, frame).has_value());
  return frame;
}

}  // namespace

TEST_CASE("frame_queue: frames leave in the order of their chunks, whatever their size") {
  for (const std::uint32_t encoders : {1U, 4U}) {
    CAPTURE(encoders);
    frame_queue queue(encoders);
    CHECK(queue.empty());
    // The first chunk takes longest, so with several encoders the others are ready before it.
    push(queue, frame_queue::chunk_bytes, 'a', false);
    push(queue, 10, 'b', false);
    push(queue, 1000, 'c', true);
    CHECK(queue.full() == (encoders == 1));
    const std::vector<std::vector<std::byte>> expected = {encoded(frame_queue::chunk_bytes, 'a'),
                                                          encoded(10, 'b'), encoded(1000, 'c')};
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto frame = queue.take();
      REQUIRE(frame.has_value());
      CHECK((frame->bytes == expected[i]));
      CHECK(frame->last == (i == 2));
    }
    CHECK(queue.empty());
  }
}

TEST_CASE("frame_queue: is destroyed while frames are being encoded") {
  frame_queue queue(2);
  for (int i = 0; i < 4; ++i) push(queue, frame_queue::chunk_bytes / 4, 'x', false);
}
