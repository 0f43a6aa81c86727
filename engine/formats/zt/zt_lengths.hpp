// SPDX-License-Identifier: Apache-2.0
#pragma once

// The decoded lengths of compressed components that are not dense. A .zt file of version 1.1 does
// not have them, so they are counted by decoding.

#include <cstdint>
#include <optional>

#include "base/fault.hpp"
#include "formats/text/input.hpp"
#include "formats/zt/zt_object.hpp"

namespace ringload::inline v0 {

// Limit of the bytes of one file that are decoded for counting.
inline constexpr std::uint64_t zt_counted_bytes_max = std::uint64_t{4} << 30;

bool lacks_zt_lengths(const zt_object& object, const zt_blobs& blobs) noexcept;

// Sets the missing zt_component::uncompressed_length. `budget` is the rest of zt_counted_bytes_max.
std::optional<fault> count_zt_lengths(zt_object& object, input& from, const zt_blobs& blobs,
                                      std::uint64_t& budget);

}  // namespace ringload::inline v0
