// SPDX-License-Identifier: Apache-2.0
#pragma once

// The unit of direct reads, for offsets, lengths and addresses. 512 would do on most drives; 4,096
// does on all, and is the size of a page.

#include <cstdint>

namespace ringload::inline v0 {

inline constexpr std::uint32_t block_bytes = 4096;

}  // namespace ringload::inline v0
