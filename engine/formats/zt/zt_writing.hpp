// SPDX-License-Identifier: Apache-2.0
#pragma once

// Computes the blob offsets and the manifest of a .zt 1.2 file.
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

// "crc32c:0x9EBA690A", "sha256:ad73..."; `digest` has its highest byte first.
std::string zt_digest_text(digest_algorithm algorithm, std::span<const std::byte> digest);

// Returns the offset of the next blob, if the file ends at `end` now. `alignment` must be a power
// of two of at least 64. Returns nothing if the offset does not fit in 63 bits.
std::optional<std::uint64_t> zt_blob_offset(std::uint64_t end, std::uint64_t alignment) noexcept;

// Checks that add_zt_object() would accept the object after reading it from a file. The offsets of
// its blobs must be set, and its text must be UTF-8.
result<void> check_zt_object(const zt_object& object);

// Returns the bytes after the last blob: the manifest, its size and the magic. Objects and
// components are sorted by name. `encoded_attributes` is a map, or empty. Fails with
// errc::duplicate_tensor for duplicate names, and with errc::header_too_large beyond
// zt_manifest_bytes_max.
result<std::string> zt_tail(std::string_view version, std::string_view encoded_attributes,
                            std::span<const zt_object> objects);

}  // namespace ringload::inline v0
