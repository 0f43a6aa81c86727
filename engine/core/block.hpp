// SPDX-License-Identifier: Apache-2.0
#pragma once

// The alignment of direct reads: offsets, lengths and addresses. Most drives take 512; all take
// 4,096, which is also the page size.

#include <cstdint>

namespace ringload::inline v0 {

inline constexpr std::uint32_t block_bytes = 4096;

// Of addresses in the caller's memory, where the kernel does not say what the drive wants. If that
// is more, its refusal sends the load to the page cache.
inline constexpr std::uint32_t direct_address_alignment = 512;

}  // namespace ringload::inline v0
