// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <ringload/catalog.hpp>

#include "formats/catalog_entries.hpp"
#include "formats/description_budget.hpp"
#include "formats/text/input_cursor.hpp"

namespace ringload::inline v0 {

inline constexpr std::uint64_t gguf_alignment_usual = 32;

// Size of the smallest pair: the length of the key, a key of one byte, a type, and a value of one
// byte.
inline constexpr std::uint64_t gguf_pair_bytes_min = 8 + 1 + 4 + 1;

struct gguf_pairs {
  std::endian order = std::endian::little;
  std::uint64_t count = 0;
  ringload::strictness strictness = ringload::strictness::strict;
};

// Adds the pairs to the metadata of `entries`. If a pair states the alignment, sets `alignment`.
// After a failure, returns false, and `in` has the fault.
bool read_gguf_metadata(input_cursor& in, const gguf_pairs& pairs, description_budget& budget,
                        file_entries& entries, std::uint64_t& alignment);

}  // namespace ringload::inline v0
