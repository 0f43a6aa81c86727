// SPDX-License-Identifier: Apache-2.0

// The order in which pieces of compressed streams are decoded.

#include "runtime/decoders.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <memory>
#include <semaphore>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "load/stream_state.hpp"
#include "support/npz_text.hpp"
#include "support/zip_text.hpp"

using namespace ringload;
using namespace ringload::detail;
using namespace ringload::testing;

namespace {

// A deflated stream of one tensor, cut in pieces, and the memory that it is decoded to.
struct cut_stream {
  cut_stream(std::size_t bytes, std::size_t pieces_wanted, std::uint64_t seed)
      : original(compressible(bytes, seed)), stored(deflated(original)), memory(bytes) {
    how.bytes = stored.size();
    how.decoded_bytes = bytes;
    how.stored_codec = codec::deflate;
    how.crc32 = crc32(bytes_of(original), 0);
    from = {&how, 1, nullptr};
    stream_output out = {};
    out.bytes = bytes;
    out.map = no_index;
    made.outputs.push_back(out);
    made.streams.push_back({0, 0, 0, 0, 1, bytes});
    const auto no_copies = [](const std::byte*, std::span<const copy_op>) {
      return boost::system::error_code();
    };
    decode_to(memory.data(), no_copies);
    const std::size_t step = stored.size() / pieces_wanted + 1;
    for (std::size_t at = 0; at < stored.size(); at += step) {
      const auto part = std::as_bytes(std::span(stored)).subspan(at);
      const auto piece_bytes = part.first(std::min(step, part.size()));
      pieces.push_back(std::make_unique<stream_piece>(
          at, piece_bytes, at + piece_bytes.size() == stored.size(), nullptr));
    }
  }

  void decode_to(std::byte* destination, stream_state::copier copy) {
    auto state = std::make_shared<stream_state>(made, made.streams[0], from, checked, destination,
                                                std::move(copy));
    one.decode = [state](std::span<const std::byte> bytes, bool last) {
      return state->decode(bytes, last);
    };
  }

  std::string decoded() const {
    return {reinterpret_cast<const char*>(memory.data()), memory.size()};
  }

  std::string original;
  std::string stored;
  std::vector<std::byte> memory;
  stored_stream how;
  plan_input_builder::stream from = {};
  verification checked;
  plan made;
  running_stream one;
  std::vector<std::unique_ptr<stream_piece>> pieces;
  // Indices of the pieces, in the order in which they were resumed.
  std::vector<std::size_t> ended;
};

boost::asio::awaitable<void> wait_for(decoders& by, cut_stream& of, std::size_t which) {
  stream_piece& piece = *of.pieces[which];
  co_await by.decode(of.one, piece);
  of.ended.push_back(which);
  if (piece.decoded && !piece.outcome) by.give_up(of.one);
}

// Passes all pieces to the decoders, the last first, except one piece. If the index does not exist,
// passes all of them.
void hand_over(boost::asio::io_context& loop, decoders& by, cut_stream& of,
               std::size_t but = no_index) {
  for (std::size_t i = of.pieces.size(); i > 0; --i) {
    if (i - 1 == but) continue;
    boost::asio::co_spawn(loop, wait_for(by, of, i - 1), boost::asio::detached);
  }
}

}  // namespace

TEST_CASE("decoders: pieces in any order, of more streams than threads, are decoded in theirs") {
  for (const std::uint32_t threads : {1U, 2U, 8U}) {
    boost::asio::io_context loop;
    std::vector<std::unique_ptr<cut_stream>> streams;
    // One stream with more pieces than a thread decodes in a row, and one stream with a single
    // piece.
    for (const std::size_t count : {1U, 4U, 5U, 9U, 30U}) {
      streams.push_back(std::make_unique<cut_stream>(400'000 + count, count, count));
    }
    decoders by(loop, threads, 0);
    for (const auto& each : streams) hand_over(loop, by, *each);
    loop.run();
    for (std::size_t s = 0; s < streams.size(); ++s) {
      CAPTURE(s);
      const cut_stream& of = *streams[s];
      REQUIRE(of.ended.size() == of.pieces.size());
      for (const auto& piece : of.pieces) {
        CHECK(piece->decoded);
        CHECK(piece->outcome.has_value());
      }
      CHECK((of.decoded() == of.original));
    }
  }
}

TEST_CASE("decoders: without a piece none after it is decoded, until it comes") {
  boost::asio::io_context loop;
  cut_stream late(300'000, 7, 1);
  decoders by(loop, 2, 0);
  hand_over(loop, by, late, 2);
  while (late.ended.size() < 2) loop.run_one();
  for (std::size_t i = 3; i < late.pieces.size(); ++i) CHECK_FALSE(late.pieces[i]->decoded);
  boost::asio::co_spawn(loop, wait_for(by, late, 2), boost::asio::detached);
  loop.run();
  CHECK(late.ended.size() == late.pieces.size());
  CHECK((late.decoded() == late.original));
}

TEST_CASE("decoders: what waits for a piece that never comes is given up, and nothing else") {
  boost::asio::io_context loop;
  cut_stream cut_off(300'000, 7, 1);
  cut_stream other(300'000, 7, 2);
  decoders by(loop, 1, 0);
  hand_over(loop, by, cut_off, 2);
  hand_over(loop, by, other);
  while (cut_off.ended.size() < 2) loop.run_one();
  by.give_up(cut_off.one);
  loop.run();
  REQUIRE(cut_off.ended.size() == cut_off.pieces.size() - 1);
  for (std::size_t i = 0; i < cut_off.pieces.size(); ++i) {
    CHECK(cut_off.pieces[i]->decoded == (i < 2));
  }
  CHECK((other.decoded() == other.original));
}

TEST_CASE("decoders: what is given up before a thread has begun with it is not decoded") {
  boost::asio::io_context loop;
  cut_stream first(300'000, 3, 1);
  cut_stream second(300'000, 3, 2);
  // All pieces are added before the only thread can begin the second stream.
  std::counting_semaphore<> go{0};
  const auto hold = [&](const std::byte*, std::span<const copy_op>) {
    go.acquire();
    return boost::system::error_code();
  };
  first.decode_to(nullptr, hold);
  decoders by(loop, 1, 0);
  hand_over(loop, by, first);
  hand_over(loop, by, second);
  while (loop.poll_one() > 0) {
  }
  by.give_up(second.one);
  go.release(1000);
  loop.run();
  CHECK(first.ended.size() == first.pieces.size());
  CHECK(second.ended.size() == second.pieces.size());
  for (const auto& piece : second.pieces) CHECK_FALSE(piece->decoded);
  for (const auto& piece : first.pieces) CHECK(piece->decoded);
}

TEST_CASE("decoders: after a damaged piece nothing of its stream is decoded, others go on") {
  boost::asio::io_context loop;
  cut_stream damaged(300'000, 9, 1);
  cut_stream whole(300'000, 9, 2);
  REQUIRE(damaged.stored.size() < damaged.original.size());
  std::fill_n(damaged.stored.data() + damaged.pieces[4]->stream_offset, 400, '\xff');
  decoders by(loop, 2, 0);
  hand_over(loop, by, damaged);
  hand_over(loop, by, whole);
  loop.run();
  REQUIRE(damaged.ended.size() == damaged.pieces.size());
  std::size_t failed = 0;
  for (std::size_t i = 0; i < damaged.pieces.size(); ++i) {
    const stream_piece& piece = *damaged.pieces[i];
    if (i < 4) CHECK(piece.outcome.has_value());
    if (piece.decoded && !piece.outcome) ++failed;
    if (failed > 0 && piece.outcome) CHECK_FALSE(piece.decoded);
  }
  CHECK(failed == 1);
  CHECK((whole.decoded() == whole.original));
}
