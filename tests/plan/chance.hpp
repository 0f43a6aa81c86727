// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random choices by a seed, and files of random bytes.

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "plan/planned.hpp"

namespace ringload::testing {

class chance {
 public:
  explicit chance(unsigned seed) : engine_(seed) {}

  // Returns a number in [least, most].
  std::uint64_t number(std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(least, most)(engine_);
  }
  template <std::size_t N>
  std::uint64_t one_of(const std::uint64_t (&values)[N]) {
    return values[number(0, N - 1)];
  }
  template <class T, std::size_t N>
  T one_of(const T (&values)[N]) {
    return values[number(0, N - 1)];
  }
  bool one_in(std::uint64_t n) { return number(1, n) == 1; }
  std::mt19937_64& engine() { return engine_; }

 private:
  std::mt19937_64 engine_;
};

// All files are windows of the same random bytes, at different positions.
class noise_files {
 public:
  noise_files() {
    std::mt19937_64 by(1);
    for (std::byte& b : noise_) b = static_cast<std::byte>(by());
  }
  const std::byte* at(std::uint32_t file, std::uint64_t offset) const {
    return noise_.data() + file * 1'000'003ULL + offset;
  }

 private:
  std::vector<std::byte> noise_ = std::vector<std::byte>(32 * mib);
};

}  // namespace ringload::testing
