// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loads and stores of unsigned integers, for the kernels.

#include <cstdint>

namespace ringload {
inline namespace v0 {
namespace cuda {

// Loads a word from an address of any alignment. Word must be an unsigned integer.
template <class Word, bool Swap>
__device__ Word load_word(const unsigned char* from) {
  Word word = 0;
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof word == 0) {
    const Word& aligned = *reinterpret_cast<const Word*>(from);
    word = aligned;
  } else {
    for (unsigned i = 0; i < sizeof word; ++i) {
      word = static_cast<Word>(word | static_cast<Word>(static_cast<Word>(from[i]) << 8U * i));
    }
  }
  if constexpr (!Swap) return word;
  Word reversed = 0;
  for (unsigned i = 0; i < sizeof word; ++i) {
    const auto byte = static_cast<Word>(word >> 8U * i & 0xFFU);
    reversed = static_cast<Word>(reversed | static_cast<Word>(byte << 8U * (sizeof word - 1U - i)));
  }
  return reversed;
}

template <class Word>
__device__ void store_word(unsigned char* to, Word word) {
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof word == 0) {
    Word& aligned = *reinterpret_cast<Word*>(to);
    aligned = word;
    return;
  }
  for (unsigned i = 0; i < sizeof word; ++i) to[i] = static_cast<unsigned char>(word >> 8U * i);
}

}  // namespace cuda
}  // namespace v0
}  // namespace ringload
