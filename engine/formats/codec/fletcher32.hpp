// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fletcher's checksum as HDF5 defines it: over big-endian 16-bit words. The last byte of an odd
// count is the upper half of a word.

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
        // The upper half was added to both sums already. Now the lower half is added to both.
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
  // Both sums stay below 2^32 for this many bytes: words of at most 65,535, and their sums.
  static constexpr unsigned folded_after = 512;

  void add(std::uint32_t word) noexcept {
    first_ += word;
    second_ += first_;
  }
  // Reduces modulo 65,535, with 65,535 in place of 0 unless the sum was 0.
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

// HDF5 up to 1.6.2 swapped the bytes of each half on some machines.
inline bool same_fletcher32(std::uint32_t sum, std::uint32_t stated) noexcept {
  return sum == stated || ((sum & 0x00FF00FFU) << 8U | (sum & 0xFF00FF00U) >> 8U) == stated;
}

}  // namespace ringload::inline v0
