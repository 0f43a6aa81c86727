// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes the CRC-32C of joined bytes from the CRC-32C of each part. Pure functions.

#include <array>
#include <cstdint>
#include <ringload/export.hpp>

namespace ringload::inline v0 {

// Returns the CRC-32C of bytes with the CRC-32C `first`, followed by `second_bytes` bytes with the
// CRC-32C `second`.
RINGLOAD_EXPORT std::uint32_t join_crc32c(std::uint32_t first, std::uint32_t second,
                                          std::uint64_t second_bytes) noexcept;

// A faster join_crc32c() for one size of the second part.
class RINGLOAD_EXPORT crc32c_join {
 public:
  explicit crc32c_join(std::uint64_t second_bytes) noexcept;

  std::uint32_t operator()(std::uint32_t first, std::uint32_t second) const noexcept {
    return shifted_[0][first & 0xFFU] ^ shifted_[1][first >> 8U & 0xFFU] ^
           shifted_[2][first >> 16U & 0xFFU] ^ shifted_[3][first >> 24U] ^ second;
  }

 private:
  // shifted_[i][b]: byte `b` at position i of a CRC, multiplied by x to the power 8 * second_bytes.
  std::array<std::array<std::uint32_t, 256>, 4> shifted_;
};

}  // namespace ringload::inline v0
