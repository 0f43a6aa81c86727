// SPDX-License-Identifier: Apache-2.0
#include "decoding/stream_decoder.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "decoding/filter_chain.hpp"
#include "decoding/shuffle.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t sum_bytes = 4;

}  // namespace

result<stream_decoder> stream_decoder::make(const stored_stream& what, unsigned element_bytes,
                                            decoded_into into) {
  if (what.shuffle_bytes > 1 && what.decoded_bytes > chunk_bytes_max) {
    return malformed_stream("a shuffled chunk of " + grouped(what.decoded_bytes) +
                            " bytes, the limit is " + grouped(chunk_bytes_max));
  }
  if (what.fletcher32 && what.bytes < sum_bytes)
    return malformed_stream("it is too short for its checksum");
  if (what.shuffle_bytes > 1) into = decoded_into::one_memory;
  if (what.decoded_bytes == 0) into = decoded_into::pieces;
  auto with = what.chain ? make_chain_decoder(*what.chain, what.bytes, what.decoded_bytes)
                         : make_decoder(what.how, element_bytes, into);
  if (!with) return with.error();
  stream_decoder made(what, std::move(*with));
  if (what.shuffle_bytes > 1) made.shuffled_.resize(what.decoded_bytes);
  return made;
}

result<void> stream_decoder::take(std::span<const std::byte> in, decoded_output& out) {
  if (!what_.fletcher32) return decode(in, out);
  // The last bytes are the sum of those before them.
  const std::uint64_t summed = what_.bytes - sum_bytes;
  const auto own = static_cast<std::size_t>(
      std::min<std::uint64_t>(in.size(), summed - std::min(summed, taken_)));
  sum_.take(in.first(own));
  for (std::size_t i = own; i < in.size(); ++i) {
    const std::uint64_t at = taken_ + i - summed;
    if (at < sum_bytes) stated_sum_ |= static_cast<std::uint32_t>(in[i]) << (8U * at);
  }
  const std::uint64_t after = taken_ + in.size();
  auto good = decode(in.first(own), out);
  taken_ = after;
  return good;
}

// What is left of the stored bytes may only be the end of the stream, and no decoded byte.
result<void> stream_decoder::nothing_more(std::span<const std::byte>& in) {
  std::array<std::byte, 1> more;
  auto done = decoder_->decode(in, more);
  if (!done) return done.error();
  if (done->given > 0) {
    return malformed_stream("it decodes to more than the " + grouped(what_.decoded_bytes) +
                            " bytes that the header says");
  }
  ended_ = done->ended;
  if (done->taken == 0 && !in.empty()) {
    return malformed_stream(grouped(in.size()) + " bytes are left over after its end");
  }
  in = in.subspan(done->taken);
  return {};
}

result<void> stream_decoder::decode(std::span<const std::byte> in, decoded_output& out) {
  taken_ += in.size();
  for (;;) {
    const std::uint64_t to_come = what_.decoded_bytes - given_;
    if (to_come == 0) {
      while (!in.empty()) {
        if (auto good = nothing_more(in); !good) return good.error();
      }
      return {};
    }
    std::span<std::byte> room =
        shuffled_.empty() ? out.room() : std::span(shuffled_).subspan(given_);
    room = room.first(static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), to_come)));
    auto done = decoder_->decode(in, room);
    if (!done) return done.error();
    in = in.subspan(done->taken);
    given_ += done->given;
    ended_ = done->ended;
    if (what_.crc32) crc32_ = crc32(room.first(done->given), crc32_);
    if (shuffled_.empty() && done->given > 0) out.filled(done->given);
    if (done->taken == 0 && done->given == 0) break;
  }
  if (!in.empty())
    return malformed_stream("it ends before its " + grouped(what_.decoded_bytes) + " bytes");
  return {};
}

void stream_decoder::give_unshuffled(decoded_output& out) const {
  std::size_t at = 0;
  while (at < shuffled_.size()) {
    const std::span<std::byte> whole = out.room();
    const std::size_t bytes = std::min(whole.size(), shuffled_.size() - at);
    unshuffle(shuffled_, what_.shuffle_bytes, at, whole.first(bytes));
    out.filled(bytes);
    at += bytes;
  }
}

result<void> stream_decoder::finish(decoded_output& out) {
  if (given_ == what_.decoded_bytes && !ended_) {
    // The end of the stream may have come with the last byte, and not been looked at.
    std::span<const std::byte> none;
    if (auto good = nothing_more(none); !good) return good.error();
  }
  const bool has_end = what_.how != codec::raw && what_.how != codec::varint;
  if (given_ != what_.decoded_bytes || (has_end && !ended_)) {
    return malformed_stream("it decodes to " + grouped(given_) +
                            " bytes and is not at its end, the header says " +
                            grouped(what_.decoded_bytes));
  }
  if (what_.fletcher32) {
    if (!same_fletcher32(sum_.value(), stated_sum_)) {
      return malformed_stream("its Fletcher checksum is another");
    }
  }
  if (what_.crc32 && *what_.crc32 != crc32_)
    return malformed_stream("the CRC-32 of its bytes is another");
  if (!shuffled_.empty()) give_unshuffled(out);
  return {};
}

}  // namespace ringload::inline v0
