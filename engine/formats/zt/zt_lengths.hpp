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

// At most so many bytes of one file are decoded to be counted.
inline constexpr std::uint64_t zt_counted_bytes_max = std::uint64_t{4} << 30;

bool lacks_zt_lengths(const zt_object& object, const zt_blobs& blobs) noexcept;

// Sets zt_component::uncompressed_length where it is missing. `room` is what is left of
// zt_counted_bytes_max.
std::optional<fault> count_zt_lengths(zt_object& object, input& from, const zt_blobs& blobs,
                                      std::uint64_t& room);

}  // namespace ringload::inline v0
