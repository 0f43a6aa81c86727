// SPDX-License-Identifier: Apache-2.0

#include "base/crc32c_join.hpp"

namespace ringload::inline v0 {

namespace {

// A polynomial over GF(2) of degree 31 or less. The highest bit is the coefficient of x^0, as in
// the CRC itself.
using polynomial = std::uint32_t;

constexpr polynomial modulus = 0x82F63B78;  // The polynomial of CRC-32C, without x^32.
constexpr polynomial x_to_0 = 0x80000000;
constexpr polynomial x_to_8 = x_to_0 >> 8U;

polynomial times_x(polynomial a) noexcept { return a >> 1U ^ ((a & 1U) != 0 ? modulus : 0); }

polynomial multiply(polynomial a, polynomial b) noexcept {
  polynomial product = 0;
  for (polynomial bit = x_to_0; bit != 0; bit >>= 1U) {
    if ((a & bit) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

polynomial power(polynomial base, std::uint64_t exponent) noexcept {
  polynomial result = x_to_0;
  for (; exponent != 0; exponent >>= 1U) {
    if ((exponent & 1U) != 0) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

}  // namespace

std::uint32_t join_crc32c(std::uint32_t first, std::uint32_t second,
                          std::uint64_t second_bytes) noexcept {
  return multiply(power(x_to_8, second_bytes), first) ^ second;
}

crc32c_join::crc32c_join(std::uint64_t second_bytes) noexcept {
  const polynomial factor = power(x_to_8, second_bytes);
  for (unsigned i = 0; i < shifted_.size(); ++i) {
    for (std::uint32_t b = 0; b < shifted_[i].size(); ++b) {
      shifted_[i][b] = multiply(factor, b << 8U * i);
    }
  }
}

}  // namespace ringload::inline v0
