// SPDX-License-Identifier: Apache-2.0
#pragma once

// XXH3-128: the 128-bit digest of the xxHash family, with the seed 0. Deltas (the differences
// between two versions of a model) of other programs use this digest. The digest detects damage,
// but not tampering.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ringload::inline v0 {

struct xxh3_128_value {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend bool operator==(const xxh3_128_value&, const xxh3_128_value&) = default;
};

// Computes the digest of one memory region in steps. The bytes of the region may be written between
// two steps, in ascending order.
class xxh3_128 {
 public:
  // `region` must outlive this object.
  explicit xxh3_128(std::span<const std::byte> region) noexcept : region_(region) {}

  // Adds the bytes before `end`, which must have their final values. `end` must not be less than in
  // the previous call.
  void advance(std::size_t end) noexcept;
  // Returns the digest. All bytes of the region must have their final values.
  xxh3_128_value finish() noexcept;

 private:
  static constexpr std::size_t lane_count = 8;
  static const std::array<std::uint64_t, lane_count> initial_lanes;

  void add_stripes(std::size_t offset, std::size_t count) noexcept;

  std::span<const std::byte> region_;
  std::size_t position_ = 0;  // Number of bytes that were added: always whole blocks.
  std::array<std::uint64_t, lane_count> lanes_ = initial_lanes;
};

}  // namespace ringload::inline v0
