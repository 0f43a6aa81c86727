// SPDX-License-Identifier: Apache-2.0
#pragma once

// The safetensors format: 8 bytes of length, a JSON header, tensor data to the end of the file.
// Rules: the reference crate at 0.8. `strict` follows the format's README if it differs.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint64_t safetensors_prefix_bytes = 8;
inline constexpr std::uint64_t safetensors_header_bytes_max = 100'000'000;

// Returns the number of bytes of prefix and header. `prefix` is the first 8 bytes of the file, or
// fewer if the file is shorter. The result is checked against the size of the file.
result<std::uint64_t> safetensors_header_end(std::span<const std::byte> prefix,
                                             std::uint64_t file_bytes);

// `header` is the JSON without the prefix: file bytes [8, 8 + header.size()).
// Faults name the tensor and the byte of the file. The caller adds the file name.
result<file_entries> parse_safetensors(std::span<const std::byte> header, std::uint64_t file_bytes,
                                       strictness strictness);

}  // namespace ringload::inline v0
