// SPDX-License-Identifier: Apache-2.0
#pragma once

// The major types of CBOR. A major type is the upper three bits of the first byte of an item (RFC
// 8949, 3.1).

#include <cstdint>

namespace ringload::inline v0::cbor {

enum major : std::uint8_t { positive, negative, bytes, text, array, map, tag, simple };

}  // namespace ringload::inline v0::cbor
