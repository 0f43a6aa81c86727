// SPDX-License-Identifier: Apache-2.0
#pragma once

// The alignment of direct reads: offsets, lengths and addresses. Most drives take 512; all take
// 4,096, which is also the page size.

#include <cstdint>

namespace ringload::inline v0 {

inline constexpr std::uint32_t block_bytes = 4096;

}  // namespace ringload::inline v0
