// SPDX-License-Identifier: Apache-2.0

// The specification of XXH3 (doc/xxhash_spec.md of xxHash) defines the constants and the steps. The
// steps depend on the number of bytes: see hash_short() for up to 240 bytes, and advance() for more
// bytes.

#include "base/xxh3_128.hpp"

#include <bit>
#include <cstring>

namespace ringload::inline v0 {

namespace {

__extension__ using u128 = unsigned __int128;

constexpr std::uint64_t prime32_1 = 0x9E3779B1;
constexpr std::uint64_t prime32_2 = 0x85EBCA77;
constexpr std::uint64_t prime32_3 = 0xC2B2AE3D;
constexpr std::uint64_t prime64_1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t prime64_2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t prime64_3 = 0x165667B19E3779F9;
constexpr std::uint64_t prime64_4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t prime64_5 = 0x27D4EB2F165667C5;
constexpr std::uint64_t mixer_1 = 0x165667919E3779F9;
constexpr std::uint64_t mixer_2 = 0x9FB21C651E98DF25;

constexpr std::size_t stripe_bytes = 64;
// Distance in `secret` between the keys of two consecutive stripes.
constexpr std::size_t secret_step = 8;
constexpr std::size_t block_stripes = 16;
constexpr std::size_t block_bytes = stripe_bytes * block_stripes;
constexpr std::size_t short_bytes_max = 240;

constexpr std::array<std::uint8_t, 192> secret = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

template <class Number, class Byte>
Number read(const Byte* bytes) noexcept {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

std::uint64_t secret_at(std::size_t offset) noexcept {
  return read<std::uint64_t>(secret.data() + offset);
}

std::uint64_t secret_pair(std::size_t offset) noexcept {
  return secret_at(offset) ^ secret_at(offset + 8);
}

std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  const u128 product = u128{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t avalanche(std::uint64_t hash) noexcept {
  hash ^= hash >> 37;
  hash *= mixer_1;
  return hash ^ (hash >> 32);
}

// The last steps of the older digest XXH64. XXH3 uses these steps for at most 3 bytes.
std::uint64_t old_avalanche(std::uint64_t hash) noexcept {
  hash ^= hash >> 33;
  hash *= prime64_2;
  hash ^= hash >> 29;
  hash *= prime64_3;
  return hash ^ (hash >> 32);
}

xxh3_128_value hash_to_3(const std::uint8_t* bytes, std::size_t size) noexcept {
  const std::uint32_t low = static_cast<std::uint32_t>(bytes[0]) << 16U |
                            static_cast<std::uint32_t>(bytes[size >> 1U]) << 24U |
                            static_cast<std::uint32_t>(bytes[size - 1]) |
                            static_cast<std::uint32_t>(size << 8U);
  const std::uint32_t high = std::rotl(__builtin_bswap32(low), 13);
  const auto secret32 = [](std::size_t offset) {
    return read<std::uint32_t>(secret.data() + offset);
  };
  return {old_avalanche(high ^ std::uint64_t{secret32(8) ^ secret32(12)}),
          old_avalanche(low ^ std::uint64_t{secret32(0) ^ secret32(4)})};
}

xxh3_128_value hash_4_to_8(const std::uint8_t* bytes, std::size_t size) noexcept {
  const std::uint64_t input =
      read<std::uint32_t>(bytes) + (std::uint64_t{read<std::uint32_t>(bytes + size - 4)} << 32U);
  const u128 product = u128{input ^ secret_pair(16)} * (prime64_1 + (size << 2U));
  auto low = static_cast<std::uint64_t>(product);
  const std::uint64_t high = static_cast<std::uint64_t>(product >> 64) + (low << 1U);
  low ^= high >> 3U;
  low ^= low >> 35U;
  low *= mixer_2;
  low ^= low >> 28U;
  return {avalanche(high), low};
}

xxh3_128_value hash_9_to_16(const std::uint8_t* bytes, std::size_t size) noexcept {
  const std::uint64_t first = read<std::uint64_t>(bytes);
  const std::uint64_t last = read<std::uint64_t>(bytes + size - 8);
  const u128 product = u128{first ^ last ^ secret_pair(32)} * prime64_1;
  std::uint64_t low = static_cast<std::uint64_t>(product) + (std::uint64_t{size - 1} << 54U);
  const std::uint64_t mixed = last ^ secret_pair(48);
  const std::uint64_t high = static_cast<std::uint64_t>(product >> 64) + mixed +
                             std::uint64_t{static_cast<std::uint32_t>(mixed)} * (prime32_2 - 1);
  low ^= __builtin_bswap64(high);
  const u128 second = u128{low} * prime64_2;
  return {avalanche(static_cast<std::uint64_t>(second >> 64) + high * prime64_2),
          avalanche(static_cast<std::uint64_t>(second))};
}

// The state of the digest of 17 to 240 bytes: two sums.
struct pair_mixer {
  void mix(const std::uint8_t* first, const std::uint8_t* second, std::size_t offset) noexcept {
    const auto mixed = [](const std::uint8_t* bytes, std::size_t at_secret) {
      return fold(read<std::uint64_t>(bytes) ^ secret_at(at_secret),
                  read<std::uint64_t>(bytes + 8) ^ secret_at(at_secret + 8));
    };
    const auto sum = [](const std::uint8_t* bytes) {
      return read<std::uint64_t>(bytes) + read<std::uint64_t>(bytes + 8);
    };
    low = (low + mixed(first, offset)) ^ sum(second);
    high = (high + mixed(second, offset + 16)) ^ sum(first);
  }

  xxh3_128_value finish(std::size_t size) const noexcept {
    const std::uint64_t mixed = low * prime64_1 + high * prime64_4 + size * prime64_2;
    return {0 - avalanche(mixed), avalanche(low + high)};
  }

  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

xxh3_128_value hash_17_to_128(const std::uint8_t* bytes, std::size_t size) noexcept {
  pair_mixer sums{size * prime64_1, 0};
  for (std::size_t pair = (size - 1) / 32 + 1; pair-- > 0;) {
    sums.mix(bytes + 16 * pair, bytes + size - 16 * (pair + 1), 32 * pair);
  }
  return sums.finish(size);
}

xxh3_128_value hash_129_to_240(const std::uint8_t* bytes, std::size_t size) noexcept {
  pair_mixer sums{size * prime64_1, 0};
  std::size_t end = 32;
  for (; end < 160; end += 32) sums.mix(bytes + end - 32, bytes + end - 16, end - 32);
  sums = {avalanche(sums.low), avalanche(sums.high)};
  for (; end <= size; end += 32) sums.mix(bytes + end - 32, bytes + end - 16, end - 157);
  sums.mix(bytes + size - 16, bytes + size - 32, 103);
  return sums.finish(size);
}

xxh3_128_value hash_short(std::span<const std::byte> region) noexcept {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(region.data());
  const std::size_t size = region.size();
  if (size > 128) return hash_129_to_240(bytes, size);
  if (size > 16) return hash_17_to_128(bytes, size);
  if (size > 8) return hash_9_to_16(bytes, size);
  if (size > 3) return hash_4_to_8(bytes, size);
  if (size > 0) return hash_to_3(bytes, size);
  return {old_avalanche(secret_pair(80)), old_avalanche(secret_pair(64))};
}

template <class Lanes>
void add_stripe(Lanes& lanes, const std::byte* stripe, std::size_t at_secret) noexcept {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const auto value = read<std::uint64_t>(stripe + 8 * i);
    const std::uint64_t key = value ^ secret_at(at_secret + 8 * i);
    lanes[i ^ 1U] += value;
    lanes[i] += std::uint64_t{static_cast<std::uint32_t>(key)} * (key >> 32U);
  }
}

template <class Lanes>
std::uint64_t merge(const Lanes& lanes, std::size_t at_secret, std::uint64_t start) noexcept {
  for (std::size_t i = 0; i < lanes.size(); i += 2) {
    start += fold(lanes[i] ^ secret_at(at_secret + 8 * i),
                  lanes[i + 1] ^ secret_at(at_secret + 8 * i + 8));
  }
  return avalanche(start);
}

}  // namespace

const std::array<std::uint64_t, xxh3_128::lane_count> xxh3_128::initial_lanes = {
    prime32_3, prime64_1, prime64_2, prime64_3, prime64_4, prime32_2, prime64_5, prime32_1};

void xxh3_128::add_stripes(std::size_t offset, std::size_t count) noexcept {
  auto lanes = lanes_;  // A local copy stays in registers.
  for (std::size_t i = 0; i < count; ++i) {
    add_stripe(lanes, region_.data() + offset + i * stripe_bytes, i * secret_step);
  }
  lanes_ = lanes;
}

void xxh3_128::advance(std::size_t end) noexcept {
  if (region_.size() <= short_bytes_max) return;
  // A block is added only if a byte follows the block, because the last stripe of the region needs
  // other steps.
  for (; position_ + block_bytes < end; position_ += block_bytes) {
    add_stripes(position_, block_stripes);
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i] ^= lanes_[i] >> 47U;
      lanes_[i] ^= secret_at(secret.size() - stripe_bytes + 8 * i);
      lanes_[i] *= prime32_1;
    }
  }
}

xxh3_128_value xxh3_128::finish() noexcept {
  const std::size_t size = region_.size();
  if (size <= short_bytes_max) return hash_short(region_);
  advance(size);
  add_stripes(position_, (size - 1 - position_) / stripe_bytes);
  add_stripe(lanes_, region_.data() + size - stripe_bytes, secret.size() - stripe_bytes - 7);
  return {merge(lanes_, secret.size() - stripe_bytes - 11, ~(size * prime64_2)),
          merge(lanes_, 11, size * prime64_1)};
}

}  // namespace ringload::inline v0
