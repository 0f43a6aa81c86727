// SPDX-License-Identifier: Apache-2.0
#pragma once

// The .zt format of zTensor, versions 1.2, 1.1 and 0.1: blobs at multiples of 64, a CBOR manifest
// after them, and its size at the end. Versions 1.0 and 2.x share the extension. They are refused,
// and the error names the version.

#include <array>
#include <cstddef>
#include <cstdint>
#include <ringload/catalog.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "base/range.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"
#include "formats/zt/zt_object.hpp"

namespace ringload::inline v0 {

inline constexpr std::string_view zt_magic = "ZTEN1000";
inline constexpr std::string_view zt_0_1_magic = "ZTEN0001";
inline constexpr std::string_view zt_2_magic = "\x89ZT2\r\n\x1A\n";
inline constexpr std::uint64_t zt_manifest_bytes_max = std::uint64_t{1} << 30;
inline constexpr std::uint64_t zt_alignment = 64;
inline constexpr std::size_t zt_rank_max = 64;

// Attributes of a dense object of bytes. They contain the type of its quantisation blocks or of its
// elements of less than a byte, and the original shape. zTensor writes the first key for GGUF
// blocks.
inline constexpr std::array<std::string_view, 2> zt_type_keys = {"gguf_type", "logical_type"};
inline constexpr std::string_view zt_original_shape_key = "original_shape";

// Limit for the bytes of all names. An object's name counts once for each of its components.
inline constexpr std::uint64_t zt_name_bytes_max = std::uint64_t{16} << 20;

// Limit for the text of all attributes.
inline constexpr std::uint64_t zt_attribute_bytes_max = std::uint64_t{16} << 20;

// Dense objects are tensors; the components of all others are tensors named "object/component".
// The indices of sparse objects are counted, but not read. Unreadable objects are listed in
// file_entries::unreadable, and the other objects are still read. Faults name the tensor and the
// byte of the manifest; the caller adds the file.
result<file_entries> parse_zt(input& from, strictness strictness);

// The manifest of a file, for writers that copy its objects to another file.
struct zt_manifest {
  bool is_0_1 = false;
  std::string version;  // Empty for 0.1, which has no version field.
  range attribute_bytes;
  std::string encoded_attributes;  // A map; empty: none.
  std::vector<zt_object> objects;  // In the order of the manifest.
  std::uint64_t begin = 0;         // Offset of the manifest, which is the end of the blobs.
};

// Makes the same checks as parse_zt().
result<zt_manifest> read_zt_manifest(input& from);

}  // namespace ringload::inline v0
