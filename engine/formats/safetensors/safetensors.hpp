// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses the safetensors format. A file has 8 bytes with the length of the header, a JSON header,
// and tensor data to the end of the file. Version 0.8 of the reference crate defines the rules. If
// the README of the format states another rule, `strictness::strict` follows the README.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint64_t safetensors_prefix_bytes = 8;
inline constexpr std::uint64_t safetensors_header_bytes_max = 100'000'000;

// Returns the number of bytes of prefix and header. `prefix` must be the first 8 bytes of the file,
// or all bytes of a shorter file. The result is at most the size of the file.
result<std::uint64_t> safetensors_header_end(std::span<const std::byte> prefix,
                                             std::uint64_t file_bytes);

// `header` is the JSON without the prefix: the file bytes [8, 8 + header.size()). A fault states
// the tensor and the byte offset if they are known. The caller must add the name of the file.
result<file_entries> parse_safetensors(std::span<const std::byte> header, std::uint64_t file_bytes,
                                       strictness strictness);

}  // namespace ringload::inline v0
