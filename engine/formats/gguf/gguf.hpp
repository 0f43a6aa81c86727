// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parses GGUF files of version 2 and 3, in either byte order. A file has counts, key-value pairs,
// tensor infos, padding, and then the data of the tensors in the order of the infos. As in version
// 0.21 of ggml's reader, tensors must have no overlaps and, apart from padding, no gaps. All data
// must be in the file.

#include <cstdint>
#include <ringload/catalog.hpp>
#include <string_view>

#include "base/fault.hpp"
#include "formats/catalog_entries.hpp"
#include "formats/text/input.hpp"

namespace ringload::inline v0 {

inline constexpr std::string_view gguf_magic = "GGUF";

// Limit for all pairs and infos together. The largest vocabularies need less than 20 MB.
inline constexpr std::uint64_t gguf_header_bytes_max = 100'000'000;

// Limits for the counts of pairs and tensors. Real models have smaller counts.
inline constexpr std::uint64_t gguf_pairs_max = 65'536;
inline constexpr std::uint64_t gguf_tensors_max = 250'000;
// Limit for the strings and the nested arrays of one pair.
inline constexpr std::uint64_t gguf_strings_max = 2'000'000;

// Limit for the metadata text of all key-value pairs. A pair that exceeds the limit is left out,
// with a note. So is a pair that has arrays inside an array.
inline constexpr std::uint64_t gguf_metadata_bytes_max = std::uint64_t{16} << 20;

// A tensor of quantised blocks becomes a one-dimensional u8 tensor of its stored bytes.
// `entry::type` is the type of the blocks ("q4_k"), and `entry::original_shape` is the shape in
// elements. `strictness::strict` allows names of 64 bytes, the limit of the specification, and
// `strictness::reference` allows names of 255 bytes. A fault states the tensor and the byte offset.
// The caller must add the name of the file.
result<file_entries> parse_gguf(input& from, strictness strictness);

}  // namespace ringload::inline v0
