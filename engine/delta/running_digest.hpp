// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes the digest of one tensor while the tensor is changed.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/xxh3_128.hpp"

namespace ringload::inline v0 {

// The algorithms of digests in deltas. A delta in a .zt file has CRC-32C digests. Deltas with an
// index have Adler-32 or XXH3 digests.
enum class checksum_kind : std::uint8_t { crc32c, adler32, xxh3_128 };

// Returns "crc32c", "adler32" or "xxh3-128".
std::string_view checksum_name(checksum_kind kind) noexcept;
// Returns the kind of a text such as "adler32 0a1b2c3d". Returns an empty optional if the name of
// the algorithm is unknown.
std::optional<checksum_kind> checksum_kind_of(std::string_view text) noexcept;

class running_digest {
 public:
  // `tensor` must outlive this object.
  running_digest(checksum_kind kind, std::span<const std::byte> tensor) noexcept
      : kind_(kind), tensor_(tensor), xxh3_(tensor) {}

  // Hashes the bytes before `end`, which must have their final values. `end` must not be less than
  // in the previous call.
  void advance(std::size_t end) noexcept;
  // Hashes the remaining bytes, which must have their final values. Returns a text such as "crc32c
  // 9eba690a".
  std::string finish();
  // Returns the CRC-32C of the bytes before the last `end`. Returns 0 for another kind.
  std::uint32_t crc() const noexcept { return crc_; }

 private:
  checksum_kind kind_;
  std::span<const std::byte> tensor_;
  std::size_t position_ = 0;
  std::uint32_t crc_ = 0;
  std::uint32_t adler_sum_ = 1;
  std::uint32_t adler_sum_of_sums_ = 0;
  xxh3_128 xxh3_;
};

}  // namespace ringload::inline v0
