// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds the decoded lengths of compressed components of objects that are not dense. Files of
// version 1.1 do not state these lengths, so the components are decoded to count the bytes.

#include <cstdint>

#include "base/fault.hpp"
#include "formats/text/input.hpp"
#include "formats/zt/zt_index.hpp"

namespace ringload::inline v0 {

// Maximum number of bytes that are decoded for one file.
inline constexpr std::uint64_t zt_counted_bytes_max = std::uint64_t{4} << 30;

bool lacks_zt_lengths(const zt_object& object, const zt_blob_rules& blobs) noexcept;

// Sets each missing zt_component::uncompressed_length. `budget` is the unused part of
// zt_counted_bytes_max. Subtracts the number of decoded bytes from `budget`. If a component cannot
// be decoded, sets zt_object::unreadable. Returns an error only if the file cannot be read.
result<void> count_zt_lengths(zt_object& object, input& from, const zt_blob_rules& blobs,
                              std::uint64_t& budget);

}  // namespace ringload::inline v0
