// SPDX-License-Identifier: Apache-2.0
#pragma once

// GGUF, versions 2 and 3, of either byte order: counts, key-value pairs, tensor infos, padding, and
// the tensors' data in the order of their infos. Rules: the reader of ggml 0.21, which allows no
// gap and no overlap between tensors. All data must be in the file.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string_view>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

inline constexpr std::string_view gguf_magic = "GGUF";

// Limit for all pairs and infos. The largest vocabularies need less than 20 MB.
inline constexpr std::uint64_t gguf_header_bytes_max = 100'000'000;

// More than any model has, but few enough to be read or refused immediately.
inline constexpr std::uint64_t gguf_pairs_max = 65'536;
inline constexpr std::uint64_t gguf_tensors_max = 250'000;
inline constexpr std::uint64_t gguf_strings_max = 2'000'000;  // Limit for one array.

// Limit for the metadata text of all key-value pairs. Longer values are left out with a note.
inline constexpr std::uint64_t gguf_metadata_bytes_max = std::uint64_t{16} << 20;

// A tensor of blocks ("q4_k") becomes one dimension of stored bytes, with `type` and
// `original_shape`. Faults name the tensor and the byte of the file. The caller adds the file name.
result<file_entries> parse_gguf(input& from, strictness strictness);

}  // namespace ringload::inline v0
