// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes the blob offsets and the manifest of a .zt 1.2 file. Used by save jobs and by writers of
// .zt files.
//
//   |ZTEN1000|0...|blob|0..|blob|manifest|its size|ZTEN1000|
//   0        8    64       k * 64        |<--- zt_tail() --->|

#include <cstdint>
#include <optional>
#include <ringload/verify.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"
#include "formats/zt/zt_object.hpp"

namespace ringload::inline v0 {

inline constexpr std::string_view zt_version_written = "1.2.0";

// Returns a text such as "crc32c:0x9EBA690A" or "sha256:ad73...". The most significant byte of
// `digest` must be first.
std::string zt_digest_text(digest_algorithm algorithm, std::span<const std::byte> digest);

// Returns the offset of the next blob if the last blob ends at `end`. `alignment` must be a power
// of two of at least 64. Returns an empty optional if the offset does not fit in 63 bits.
std::optional<std::uint64_t> zt_blob_offset(std::uint64_t end, std::uint64_t alignment) noexcept;

// Checks that add_zt_object() accepts the object, and that its text is UTF-8. The offsets of the
// object's blobs must be set.
result<void> check_zt_object(const zt_object& object);

// Returns the bytes after the last blob: the manifest, its size, and the magic number. Objects and
// components are written in the order of their names. `encoded_attributes` must be a CBOR map or
// empty. Returns errc::duplicate_tensor if two objects have the same name. Returns
// errc::header_too_large if the manifest exceeds zt_index_bytes_max.
result<std::string> zt_tail(std::string_view version, std::string_view encoded_attributes,
                            std::span<const zt_object> objects);

}  // namespace ringload::inline v0
