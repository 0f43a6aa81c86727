// SPDX-License-Identifier: Apache-2.0
#pragma once

// A pseudo-random sequence with random access: word n is computed without the earlier words.
// Therefore any part of a file can be written or checked separately. The mixing function is
// splitmix64, which produces several GB/s.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace ringload::tool {

constexpr std::uint64_t mixed(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// Returns word `number` of the stream `seed`.
constexpr std::uint64_t noise(std::uint64_t seed, std::uint64_t number) noexcept {
  return mixed(seed + (number + 1) * 0x9e3779b97f4a7c15U);
}

/// Fills `bytes` with the words from `number` on. If the last word does not fit, uses its low
/// bytes.
inline void fill_with_noise(std::span<std::byte> bytes, std::uint64_t seed,
                            std::uint64_t number) noexcept {
  static_assert(std::endian::native == std::endian::little);
  const std::size_t words = bytes.size() / 8;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = noise(seed, number + i);
    std::memcpy(bytes.data() + i * 8, &word, 8);
  }
  const std::uint64_t last = noise(seed, number + words);
  std::memcpy(bytes.data() + words * 8, &last, bytes.size() % 8);
}

}  // namespace ringload::tool
