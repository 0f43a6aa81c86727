// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fletcher's checksum of big-endian 16-bit words, as HDF5 defines it. If the number of bytes is
// odd, the last byte is the upper half of a word.

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringload::inline v0 {

class fletcher32 {
 public:
  void take(std::span<const std::byte> bytes) noexcept {
    for (const std::byte byte : bytes) {
      const auto value = static_cast<std::uint32_t>(byte);
      if (!half_) {
        add(value << 8U);
      } else {
        // Both sums already include the upper half of the word, so only the lower half is added.
        first_ += value;
        second_ += value;
      }
      half_ = !half_;
      if (++since_folded_ == folded_after) fold();
    }
  }

  std::uint32_t value() noexcept {
    fold();
    fold();
    return second_ << 16U | first_;
  }

 private:
  // Number of bytes after which the sums are reduced, so that the sums stay below 2^32.
  static constexpr unsigned folded_after = 512;

  void add(std::uint32_t word) noexcept {
    first_ += word;
    second_ += first_;
  }
  // Makes both sums smaller, but keeps their values modulo 65,535. A sum that is not 0 never
  // becomes 0. After two calls, each sum fits in 16 bits.
  void fold() noexcept {
    first_ = (first_ & 0xFFFFU) + (first_ >> 16U);
    second_ = (second_ & 0xFFFFU) + (second_ >> 16U);
    since_folded_ = 0;
  }

  std::uint32_t first_ = 0;
  std::uint32_t second_ = 0;
  unsigned since_folded_ = 0;
  bool half_ = false;
};

// Returns true if the checksums are equal. Also accepts a checksum with swapped bytes in each
// 16-bit half, because HDF5 up to 1.6.2 wrote checksums in this form on some machines.
inline bool same_fletcher32(std::uint32_t sum, std::uint32_t stated) noexcept {
  return sum == stated || ((sum & 0x00FF00FFU) << 8U | (sum & 0xFF00FF00U) >> 8U) == stated;
}

}  // namespace ringload::inline v0
