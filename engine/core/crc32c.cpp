// SPDX-License-Identifier: Apache-2.0

// CRC-32C. The crc32 instruction has a latency of three cycles and a throughput of one, so long
// runs are cut into three lanes, whose CRCs are then combined as polynomials.

#include <array>
#include <cstring>
#include <ringload/verify.hpp>

namespace ringload::inline v0 {

namespace {

constexpr std::uint32_t polynomial = 0x82F63B78;  // Bits reversed, as CRC-32C has them.

// Lookup table by byte, where SSE4.2 is missing.
constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table = {};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

// These take and give the raw register, without the inversion at begin and end.
std::uint32_t by_table(std::uint32_t crc, const std::byte* at, std::size_t bytes) noexcept {
  for (; bytes > 0; --bytes, ++at) {
    crc = (crc >> 8) ^ table[(crc ^ static_cast<std::uint32_t>(*at)) & 0xFF];
  }
  return crc;
}

#if defined(__x86_64__)

constexpr std::size_t lane_bytes = 8192;

// The product of two polynomials, modulo the CRC's. The highest bit stands for 1.
constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = 0x80000000; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) sum ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? polynomial : 0);
  }
  return sum;
}

// x^(8 * bytes): multiplying a CRC by it appends that many zero bytes.
constexpr std::uint32_t over_zeros(std::size_t bytes) noexcept {
  std::uint32_t power = 0x40000000;  // x
  for (int i = 0; i < 3; ++i) power = product(power, power);
  std::uint32_t all = 0x80000000;
  for (; bytes != 0; bytes >>= 1, power = product(power, power)) {
    if ((bytes & 1) != 0) all = product(all, power);
  }
  return all;
}

constexpr std::uint32_t over_lane = over_zeros(lane_bytes);

std::uint64_t word(const std::byte* at) noexcept {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, at, sizeof bytes);
  return bytes;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t crc,
                                                               const std::byte* at,
                                                               std::size_t bytes) noexcept {
  for (; bytes >= 3 * lane_bytes; at += 3 * lane_bytes, bytes -= 3 * lane_bytes) {
    std::uint64_t a = crc;
    std::uint64_t b = 0;
    std::uint64_t c = 0;
    for (const std::byte* p = at; p != at + lane_bytes; p += 8) {
      a = __builtin_ia32_crc32di(a, word(p));
      b = __builtin_ia32_crc32di(b, word(p + lane_bytes));
      c = __builtin_ia32_crc32di(c, word(p + 2 * lane_bytes));
    }
    crc = product(static_cast<std::uint32_t>(a), over_lane) ^ static_cast<std::uint32_t>(b);
    crc = product(crc, over_lane) ^ static_cast<std::uint32_t>(c);
  }
  std::uint64_t wide = crc;
  for (; bytes >= 8; at += 8, bytes -= 8) wide = __builtin_ia32_crc32di(wide, word(at));
  return by_table(static_cast<std::uint32_t>(wide), at, bytes);
}

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~by_instruction(~before, bytes.data(), bytes.size());
#endif
  return ~by_table(~before, bytes.data(), bytes.size());
}

}  // namespace ringload::inline v0
