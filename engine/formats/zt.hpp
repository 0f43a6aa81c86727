// SPDX-License-Identifier: Apache-2.0
#pragma once

// The .zt format of zTensor, versions 1.2, 1.1 and 0.1: blobs at multiples of 64, a CBOR manifest
// after them, and its size at the end. Versions 1.0 and 2.x share the extension and are refused by
// their names.

#include <cstddef>
#include <cstdint>
#include <ringload/catalog.hpp>
#include <string_view>

#include "core/fault.hpp"
#include "formats/entries.hpp"
#include "formats/input.hpp"

namespace ringload::inline v0 {

inline constexpr std::string_view zt_magic = "ZTEN1000";
inline constexpr std::string_view zt_0_1_magic = "ZTEN0001";
inline constexpr std::string_view zt_2_magic = "\x89ZT2\r\n\x1A\n";
inline constexpr std::uint64_t zt_manifest_bytes_max = std::uint64_t{1} << 30;
inline constexpr std::uint64_t zt_alignment = 64;
inline constexpr std::size_t zt_rank_max = 64;

// Of all names, an object's counted once for each of its components.
inline constexpr std::uint64_t zt_name_bytes_max = std::uint64_t{16} << 20;

// Of the text that all attributes make together.
inline constexpr std::uint64_t zt_attribute_bytes_max = std::uint64_t{16} << 20;

// Dense objects are tensors; the components of all others are tensors named "object/component".
// The indices of sparse objects are counted here, and not read. Both profiles accept the same.
// Faults name the tensor and the byte of the manifest; the caller adds the file.
result<file_entries> parse_zt(input& from, profile strictness);

}  // namespace ringload::inline v0
