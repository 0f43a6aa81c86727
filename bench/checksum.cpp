// SPDX-License-Identifier: Apache-2.0
#include "checksum.hpp"

#include <cstring>

std::uint64_t sum_of_words(const void* memory, std::size_t bytes) {
  const auto* const from = static_cast<const unsigned char*>(memory);
  std::uint64_t sum = 0;
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + at, 8);
    sum += word;
  }
  for (; at < bytes; ++at) sum += from[at];
  return sum;
}
