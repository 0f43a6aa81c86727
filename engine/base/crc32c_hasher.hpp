// SPDX-License-Identifier: Apache-2.0
#pragma once

// Offers CRC-32C as a `hasher`, the interface of all digests. The digest is big-endian.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ringload/verify.hpp>
#include <span>
#include <vector>

namespace ringload::inline v0 {

inline std::vector<std::byte> crc32c_digest(std::uint32_t crc) {
  std::vector<std::byte> digest;
  for (unsigned shift = 32; shift > 0; shift -= 8) {
    digest.push_back(static_cast<std::byte>(crc >> (shift - 8)));
  }
  return digest;
}

inline hasher begin_crc32c() {
  const auto crc = std::make_shared<std::uint32_t>(0);
  hasher crc_hasher;
  crc_hasher.update = [crc](std::span<const std::byte> bytes) { *crc = crc32c(bytes, *crc); };
  crc_hasher.finish = [crc] { return crc32c_digest(*crc); };
  return crc_hasher;
}

}  // namespace ringload::inline v0
