// SPDX-License-Identifier: Apache-2.0

#include "delta/byte_change.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/printable.hpp"
#include "formats/codec/decoder.hpp"

namespace ringload::inline v0 {

namespace {

constexpr std::size_t piece_bytes = std::size_t{128} << 10;  // Fits into the processor's cache.

fault wrong_size(std::uint64_t decoded, const std::string& relation, std::uint64_t expected) {
  return malformed_stream("the difference decodes to " + grouped(decoded) + " bytes" + relation +
                          ", expected " + grouped(expected));
}

// Decodes a Zstandard stream. Calls `take(piece)` for the decoded bytes in order, until `take`
// returns false. Fails if there are more than `bytes_max` decoded bytes, or if the stream is
// incomplete.
template <class Take>
result<void> decode_pieces(std::span<const std::byte> frame, std::uint64_t bytes_max,
                           const Take& take) {
  auto stream = make_zstd_decoder(decoded_into::pieces);
  if (!stream) return stream.error();
  std::vector<std::byte> piece(piece_bytes);
  std::uint64_t decoded = 0;
  bool has_ended = frame.empty();
  for (;;) {
    auto step = (*stream)->decode(frame, piece);
    if (!step) return step.error();
    frame = frame.subspan(step->taken);
    has_ended = step->ended || (has_ended && step->taken == 0);
    decoded += step->produced;
    if (decoded > bytes_max) return wrong_size(decoded, " or more", bytes_max);
    if (step->produced > 0 && !take(std::span<const std::byte>(piece).first(step->produced))) {
      return {};
    }
    if (step->taken == 0 && step->produced == 0) break;
  }
  if (!frame.empty() || !has_ended) return malformed_stream("the compressed bytes are incomplete");
  return {};
}

// Appends the positions of changed bytes as gaps.
class gap_writer {
 public:
  explicit gap_writer(std::vector<std::byte>& gaps) : gaps_(&gaps) {}
  void add(std::uint64_t position) {
    append_gap(*gaps_, position - expected_);
    expected_ = position + 1;
  }

 private:
  std::vector<std::byte>* gaps_;
  std::uint64_t expected_ = 0;
};

// Calls `visit(index)` for each byte that is not 0.
template <class Visit>
void visit_nonzero(std::span<const std::byte> bytes, const Visit& visit) {
  constexpr std::size_t word_bytes = 32;
  for (std::size_t begin = 0; begin < bytes.size(); begin += word_bytes) {
    const std::size_t end = std::min(begin + word_bytes, bytes.size());
    if (end - begin == word_bytes) {
      std::array<std::uint64_t, word_bytes / 8> words;
      std::memcpy(words.data(), bytes.data() + begin, word_bytes);
      if ((words[0] | words[1] | words[2] | words[3]) == 0) continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (bytes[i] != std::byte{0}) visit(i);
    }
  }
}

result<byte_change> decode_dense_xor(std::span<const std::byte> frame, std::uint64_t bytes) {
  byte_change change;
  change.is_sparse = false;
  change.elements = bytes;
  change.planes.reserve(bytes);
  const auto decoded = decode_pieces(frame, bytes, [&](std::span<const std::byte> piece) {
    change.planes.insert(change.planes.end(), piece.begin(), piece.end());
    return true;
  });
  if (!decoded) return decoded.error();
  if (change.planes.size() != bytes) return wrong_size(change.planes.size(), "", bytes);
  return change;
}

std::uint32_t read_u32(const std::vector<std::byte>& bytes, std::uint64_t index) noexcept {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
  return number;
}

}  // namespace

result<byte_change> decode_xor(std::span<const std::byte> frame, std::uint64_t bytes) {
  byte_change change;
  change.elements = bytes;
  gap_writer gaps(change.gaps);
  std::uint64_t position = 0;
  bool is_sparse = true;
  const auto decoded = decode_pieces(frame, bytes, [&](std::span<const std::byte> piece) {
    visit_nonzero(piece, [&](std::size_t i) {
      gaps.add(position + i);
      change.planes.push_back(piece[i]);
    });
    position += piece.size();
    is_sparse = change.planes.size() <= bytes / 4;
    return is_sparse;
  });
  if (!decoded) return decoded.error();
  if (!is_sparse) return decode_dense_xor(frame, bytes);
  if (position != bytes) return wrong_size(position, "", bytes);
  return change;
}

result<byte_change> decode_overwrite(std::span<const std::byte> frame,
                                     std::span<const std::byte> before) {
  std::vector<std::byte> decoded;
  constexpr std::uint64_t number_bytes = sizeof(std::uint32_t);
  const std::uint64_t bytes_max = number_bytes + (number_bytes + 1) * before.size();
  const auto status = decode_pieces(frame, bytes_max, [&](std::span<const std::byte> piece) {
    decoded.insert(decoded.end(), piece.begin(), piece.end());
    return true;
  });
  if (!status) return status.error();
  const std::uint64_t count = decoded.size() < number_bytes ? 0 : read_u32(decoded, 0);
  const std::uint64_t expected = number_bytes + (number_bytes + 1) * count;
  if (decoded.size() != expected) return wrong_size(decoded.size(), "", expected);
  byte_change change;
  change.elements = before.size();
  change.planes.resize(count);
  gap_writer gaps(change.gaps);
  const std::byte* const values = decoded.data() + number_bytes * (1 + count);
  std::uint64_t end = 0;  // One more than the previous position.
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t position = read_u32(decoded, i + 1);
    if (position < end || position >= before.size()) {
      return malformed_stream("the position " + grouped(position) + " of changed byte " +
                              grouped(i) + " is not in ascending order, or outside of the " +
                              grouped(before.size()) + " bytes of the tensor");
    }
    gaps.add(position);
    change.planes[i] = values[i] ^ before[position];
    end = position + 1;
  }
  return change;
}

std::vector<std::byte> encode_xor(std::span<const std::byte> before,
                                  std::span<const std::byte> after) {
  return encode_dense(before, after, 1);
}

std::vector<std::byte> encode_overwrite(std::span<const std::byte> before,
                                        std::span<const std::byte> after, std::uint64_t changed) {
  std::vector<std::byte> encoded(sizeof(std::uint32_t) * (1 + changed) + changed);
  std::byte* numbers = encoded.data();
  std::byte* values = encoded.data() + sizeof(std::uint32_t) * (1 + changed);
  const auto append = [&](std::uint64_t number) {
    const auto stored = static_cast<std::uint32_t>(number);
    std::memcpy(numbers, &stored, sizeof stored);
    numbers += sizeof stored;
  };
  append(changed);
  constexpr std::size_t word_bytes = 64;  // Most bytes are equal, so 64 bytes are compared at once.
  for (std::size_t begin = 0; begin < after.size(); begin += word_bytes) {
    const std::size_t end = std::min(begin + word_bytes, after.size());
    if (std::memcmp(before.data() + begin, after.data() + begin, end - begin) == 0) continue;
    for (std::size_t i = begin; i < end; ++i) {
      if (before[i] == after[i]) continue;
      append(i);
      *values++ = after[i];
    }
  }
  return encoded;
}

}  // namespace ringload::inline v0
