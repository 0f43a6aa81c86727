// SPDX-License-Identifier: Apache-2.0
#pragma once

// The major types of CBOR: the upper three bits of an item's first byte (RFC 8949, 3.1).

#include <cstdint>

namespace ringload::inline v0::cbor {

enum major : std::uint8_t { positive, negative, bytes, text, array, map, tag, simple };

}  // namespace ringload::inline v0::cbor
