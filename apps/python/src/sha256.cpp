// SPDX-License-Identifier: Apache-2.0
#include "sha256.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ringload::python {

namespace {

constexpr std::size_t block_bytes = 64;
constexpr std::size_t rounds = 64;

constexpr std::array<std::uint32_t, rounds> constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

class sha256 {
 public:
  void update(std::span<const std::byte> bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
      if (held_ == 0 && bytes.size() >= block_bytes) {
        compress(bytes.first<block_bytes>());
        bytes = bytes.subspan(block_bytes);
        continue;
      }
      const std::size_t count = std::min(bytes.size(), block_bytes - held_);
      std::copy_n(bytes.begin(), count, block_.begin() + static_cast<std::ptrdiff_t>(held_));
      held_ += count;
      bytes = bytes.subspan(count);
      if (held_ == block_bytes) {
        compress(block_);
        held_ = 0;
      }
    }
  }

  // The padded message ends with a bit of 1, zeros, and the length in bits as 8 bytes.
  std::vector<std::byte> finish() {
    const std::uint64_t bits = bytes_ * 8;
    const std::byte one{0x80};
    update({&one, 1});
    const std::byte zero{0};
    while (held_ != block_bytes - 8) update({&zero, 1});
    std::array<std::byte, 8> length;
    for (unsigned i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
    update(length);
    std::vector<std::byte> digest;
    for (const std::uint32_t word : state_) {
      for (int shift = 24; shift >= 0; shift -= 8) {
        digest.push_back(static_cast<std::byte>(word >> shift));
      }
    }
    return digest;
  }

 private:
  void compress(std::span<const std::byte, block_bytes> block) {
    std::array<std::uint32_t, rounds> w;
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = 0;
      for (std::size_t b = 0; b < 4; ++b) {
        w[i] = w[i] << 8 | std::to_integer<std::uint32_t>(block[4 * i + b]);
      }
    }
    for (std::size_t i = 16; i < rounds; ++i) {
      const auto s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      const auto s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < rounds; ++i) {
      const auto s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const auto t1 = h + s1 + ((e & f) ^ (~e & g)) + constants[i] + w[i];
      const auto s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const auto t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> added = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += added[i];
  }

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, block_bytes> block_ = {};
  std::size_t held_ = 0;  // Number of bytes in block_. Less than a whole block between calls.
  std::uint64_t bytes_ = 0;
};

}  // namespace

hasher make_sha256() {
  const auto state = std::make_shared<sha256>();
  return {[state](std::span<const std::byte> bytes) { state->update(bytes); },
          [state] { return state->finish(); }};
}

}  // namespace ringload::python
