// SPDX-License-Identifier: Apache-2.0
#pragma once

// The alignment of offsets, lengths and addresses for direct reads (O_DIRECT). Most drives accept
// 512 bytes. All drives accept 4,096 bytes, which is also the page size.

#include <cstdint>

namespace ringload::inline v0 {

inline constexpr std::uint32_t block_bytes = 4096;

// Alignment of addresses in memory of the caller. Used if the kernel does not report the alignment
// of the drive. If the drive requires more, the load reads through the page cache.
inline constexpr std::uint32_t direct_address_alignment = 512;

}  // namespace ringload::inline v0
