// SPDX-License-Identifier: Apache-2.0
#pragma once

// The alignment of offsets, lengths and addresses for direct reads and writes (O_DIRECT). Most
// drives accept 512 bytes. Nearly all drives accept 4,096 bytes, which is also the smallest page
// size. Direct reads of a file that needs a larger alignment are refused.

#include <cstdint>

namespace ringload::inline v0 {

inline constexpr std::uint32_t block_bytes = 4096;

// The alignment that an address in the caller's memory needs for a direct read or write. If the
// kernel reports an alignment for the file, a read uses the reported alignment instead. If the
// kernel reports no alignment, and the drive requires more than 512 bytes, the load reads through
// the page cache.
inline constexpr std::uint32_t direct_address_alignment = 512;

}  // namespace ringload::inline v0
