// SPDX-License-Identifier: Apache-2.0

// The destinations of the decoded bytes of a stream.

#include "load/stream_state.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/npz_text.hpp"
#include "support/zip_text.hpp"

using namespace ringload;
using namespace ringload::detail;
using namespace ringload::testing;

namespace {

// A deflated stream and its tensors.
struct test_stream {
  explicit test_stream(std::size_t bytes)
      : original(compressible(bytes, 1)), stored(deflated(original)) {
    format.bytes = stored.size();
    format.decoded_bytes = bytes;
    format.stored_codec = codec::deflate;
    format.crc32 = crc32(bytes_of(original), 0);
    from = {&format, 1, nullptr};
  }

  void add_output(std::uint64_t offset, std::uint64_t bytes, std::uint64_t destination_offset) {
    stream_output output = {};
    output.stream_offset = offset;
    output.bytes = bytes;
    output.destination_offset = destination_offset;
    output.map = no_index;
    load.outputs.push_back(output);
    last_byte = std::max(last_byte, offset + bytes);
  }

  // Decodes in pieces of `step` bytes. The copies go to `copied`.
  result<void> decode(std::byte* memory, std::size_t step) {
    const auto outputs = static_cast<std::uint32_t>(load.outputs.size());
    load.streams.push_back({0, 0, 0, 0, outputs, last_byte});
    const auto copy = [this](const std::byte* buffer, std::span<const copy_op> copies) {
      for (const copy_op& op : copies) {
        std::memcpy(copied.data() + op.destination_offset, buffer + op.slot_offset, op.bytes);
      }
      return failure;
    };
    stream_state state(load, load.streams[0], from, checked, memory, copy);
    const auto bytes = std::as_bytes(std::span(stored));
    for (std::size_t begin = 0; begin < bytes.size(); begin += step) {
      const auto piece = bytes.subspan(begin, std::min(step, bytes.size() - begin));
      auto outcome = state.decode(piece, begin + piece.size() == bytes.size());
      if (!outcome) return outcome;
    }
    return {};
  }

  std::string original;
  std::string stored;
  stored_stream format;
  plan_input_builder::stream from = {};
  verification checked;
  plan load;
  std::uint64_t last_byte = 0;
  std::string copied = std::string(1 << 20, '.');
  boost::system::error_code failure;
};

}  // namespace

TEST_CASE(
    "stream_state: a tensor that is the whole stream is decoded to its memory, without a copy") {
  test_stream stream(300'000);
  stream.add_output(0, 300'000, 0);
  std::string memory(300'000, '.');
  REQUIRE(stream.decode(reinterpret_cast<std::byte*>(memory.data()), 1000).has_value());
  CHECK((memory == stream.original));
  CHECK(stream.copied == std::string(1 << 20, '.'));
}

TEST_CASE("stream_state: several tensors are copied out of the buffer, and the gaps are dropped") {
  test_stream stream(700'000);
  stream.add_output(100, 1'000, 0);
  stream.add_output(200'000, 400'000, 1'000);
  REQUIRE(stream.decode(nullptr, 50'000).has_value());
  CHECK((stream.copied.substr(0, 1'000) == stream.original.substr(100, 1'000)));
  CHECK((stream.copied.substr(1'000, 400'000) == stream.original.substr(200'000, 400'000)));
  CHECK(stream.copied[401'000] == '.');
}

TEST_CASE(
    "stream_state: a tensor inside a stream is decoded to its memory, and nothing beside it") {
  test_stream stream(10'000);
  stream.add_output(100, 50, 10);
  std::string memory(100, '.');
  REQUIRE(stream.decode(reinterpret_cast<std::byte*>(memory.data()), 777).has_value());
  CHECK(memory.substr(0, 10) == std::string(10, '.'));
  CHECK((memory.substr(10, 50) == stream.original.substr(100, 50)));
  CHECK(memory.substr(60) == std::string(40, '.'));
}

TEST_CASE("stream_state: the failure of a copy is the failure of the stream") {
  test_stream stream(10'000);
  stream.add_output(0, 5'000, 0);
  stream.add_output(5'000, 5'000, 5'000);
  stream.failure = boost::system::errc::make_error_code(boost::system::errc::io_error);
  const auto outcome = stream.decode(nullptr, 10'000);
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().code == stream.failure);
}

TEST_CASE("stream_state: damaged bytes are an error") {
  test_stream stream(10'000);
  stream.add_output(0, 10'000, 0);
  stream.stored[stream.stored.size() / 2] ^= 0x40;
  std::string memory(10'000, '.');
  CHECK_FALSE(stream.decode(reinterpret_cast<std::byte*>(memory.data()), 1'000).has_value());
}
