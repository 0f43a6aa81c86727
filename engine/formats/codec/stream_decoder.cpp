// SPDX-License-Identifier: Apache-2.0

#include "formats/codec/stream_decoder.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/codec/filter_chain.hpp"
#include "formats/codec/shuffle.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t sum_bytes = 4;

}  // namespace

result<stream_decoder> stream_decoder::make(const stored_stream& stream, unsigned element_bytes,
                                            decoded_into into) {
  if (stream.shuffle_bytes > 1 && stream.decoded_bytes > chunk_bytes_max) {
    return malformed_stream("a shuffled chunk has " + grouped(stream.decoded_bytes) +
                            " bytes, the limit is " + grouped(chunk_bytes_max));
  }
  if (stream.fletcher32 && stream.bytes < sum_bytes) {
    return malformed_stream("it has " + grouped(stream.bytes) + " bytes, expected at least " +
                            grouped(sum_bytes) + " for its checksum");
  }
  if (stream.shuffle_bytes > 1) into = decoded_into::one_memory;
  if (stream.decoded_bytes == 0) into = decoded_into::pieces;
  auto new_decoder = stream.chain
                         ? make_chain_decoder(*stream.chain, stream.bytes, stream.decoded_bytes)
                         : make_decoder(stream.stored_codec, element_bytes, into);
  if (!new_decoder) return new_decoder.error();
  stream_decoder result_decoder(stream, std::move(*new_decoder));
  if (stream.shuffle_bytes > 1) result_decoder.shuffled_.resize(stream.decoded_bytes);
  return result_decoder;
}

result<void> stream_decoder::take(std::span<const std::byte> in, decoded_output& out) {
  if (!stream_.fletcher32) return decode(in, out);
  // The last bytes are the checksum of the preceding bytes.
  const std::uint64_t summed = stream_.bytes - sum_bytes;
  const auto summed_here = static_cast<std::size_t>(
      std::min<std::uint64_t>(in.size(), summed - std::min(summed, taken_)));
  sum_.take(in.first(summed_here));
  for (std::size_t i = summed_here; i < in.size(); ++i) {
    const std::uint64_t sum_index = taken_ + i - summed;
    if (sum_index < sum_bytes) stated_sum_ |= static_cast<std::uint32_t>(in[i]) << (8U * sum_index);
  }
  const std::uint64_t after = taken_ + in.size();
  auto status = decode(in.first(summed_here), out);
  taken_ = after;
  return status;
}

// Called after all decoded bytes were written. Fails if `in` decodes to more bytes, or if bytes
// follow the end of the stream.
result<void> stream_decoder::expect_end(std::span<const std::byte>& in) {
  std::array<std::byte, 1> more;
  auto step = decoder_->decode(in, more);
  if (!step) return step.error();
  if (step->produced > 0) {
    return malformed_stream("it decodes to more than the " + grouped(stream_.decoded_bytes) +
                            " bytes that the header says");
  }
  ended_ = step->ended;
  if (step->taken == 0 && !in.empty()) {
    return malformed_stream(grouped(in.size()) + " bytes follow the end of the stream");
  }
  in = in.subspan(step->taken);
  return {};
}

result<void> stream_decoder::decode(std::span<const std::byte> in, decoded_output& out) {
  taken_ += in.size();
  for (;;) {
    const std::uint64_t bytes_left = stream_.decoded_bytes - produced_;
    if (bytes_left == 0) {
      while (!in.empty()) {
        if (auto status = expect_end(in); !status) return status.error();
      }
      return {};
    }
    std::span<std::byte> buffer =
        shuffled_.empty() ? out.next_buffer() : std::span(shuffled_).subspan(produced_);
    buffer =
        buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), bytes_left)));
    auto step = decoder_->decode(in, buffer);
    if (!step) return step.error();
    in = in.subspan(step->taken);
    produced_ += step->produced;
    ended_ = step->ended;
    if (stream_.crc32) crc32_ = crc32(buffer.first(step->produced), crc32_);
    if (shuffled_.empty() && step->produced > 0) out.filled(step->produced);
    if (step->taken == 0 && step->produced == 0) break;
  }
  if (!in.empty())
    return malformed_stream("the stream ends before its " + grouped(stream_.decoded_bytes) +
                            " decoded bytes");
  return {};
}

void stream_decoder::write_unshuffled(decoded_output& out) const {
  std::size_t offset = 0;
  while (offset < shuffled_.size()) {
    const std::span<std::byte> whole = out.next_buffer();
    const std::size_t bytes = std::min(whole.size(), shuffled_.size() - offset);
    unshuffle(shuffled_, stream_.shuffle_bytes, offset, whole.first(bytes));
    out.filled(bytes);
    offset += bytes;
  }
}

result<void> stream_decoder::finish(decoded_output& out) {
  if (produced_ == stream_.decoded_bytes && !ended_) {
    // The output was complete before the decoder reached the end of the stream.
    std::span<const std::byte> no_bytes;
    if (auto status = expect_end(no_bytes); !status) return status.error();
  }
  const bool has_end = stream_.stored_codec != codec::raw;
  if (produced_ != stream_.decoded_bytes || (has_end && !ended_)) {
    return malformed_stream("the stream is incomplete after " + grouped(produced_) +
                            " decoded bytes, the header says " + grouped(stream_.decoded_bytes));
  }
  if (stream_.fletcher32) {
    if (!same_fletcher32(sum_.value(), stated_sum_)) {
      return malformed_stream("wrong Fletcher checksum");
    }
  }
  if (stream_.crc32 && *stream_.crc32 != crc32_)
    return malformed_stream("wrong CRC-32 of the decoded bytes");
  if (!shuffled_.empty()) write_unshuffled(out);
  return {};
}

}  // namespace ringload::inline v0
