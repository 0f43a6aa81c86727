// SPDX-License-Identifier: Apache-2.0
#pragma once

// Alignment of offsets, lengths and addresses of direct reads. Most drives accept 512; all accept
// 4,096, which is also the page size.

#include <cstdint>

namespace ringload::inline v0 {

inline constexpr std::uint32_t block_bytes = 4096;

// Address alignment in caller memory when the kernel does not report what the drive needs. If the
// drive needs more, it refuses the read and the load falls back to the page cache.
inline constexpr std::uint32_t direct_address_alignment = 512;

}  // namespace ringload::inline v0
