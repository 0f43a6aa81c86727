// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fletcher's checksum as HDF5 has it: over big-endian words of 16 bits, the last byte of an odd
// number in the upper half.

#include <cstddef>
#include <cstdint>
#include <span>

namespace ringload::inline v0 {

class fletcher32 {
 public:
  void take(std::span<const std::byte> bytes) noexcept {
    for (const std::byte each : bytes) {
      const auto value = static_cast<std::uint32_t>(each);
      if (!half_) {
        add(value << 8U);
      } else {
        // The upper half was added already, to both sums; the lower is added to what came of it.
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
  // Both sums stay below 2^32 for as many bytes: words of at most 65,535, and the sums of them.
  static constexpr unsigned folded_after = 512;

  void add(std::uint32_t word) noexcept {
    first_ += word;
    second_ += first_;
  }
  // Modulo 65,535, with 65,535 for 0 where the sum was not 0.
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

// HDF5 up to 1.6.2 wrote the sums with the bytes of each half exchanged, on some machines.
inline bool same_fletcher32(std::uint32_t sum, std::uint32_t stated) noexcept {
  return sum == stated || ((sum & 0x00FF00FFU) << 8U | (sum & 0xFF00FF00U) >> 8U) == stated;
}

}  // namespace ringload::inline v0
