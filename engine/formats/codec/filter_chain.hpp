// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decodes a chunk of an HDF5 dataset with filters in any order. The filters need the whole chunk,
// so both the stored and the decoded chunk are in memory. Most datasets do not need a filter chain,
// because the members of stored_stream describe the usual order: shuffle, codec and checksum.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/fault.hpp"
#include "formats/codec/decoder.hpp"

namespace ringload::inline v0 {

struct chain_filter {
  enum class kind : std::uint8_t { shuffle, zlib, fletcher32 };

  kind filter = kind::shuffle;
  std::uint32_t element_bytes = 0;  // Used only for a shuffle.

  friend bool operator==(const chain_filter&, const chain_filter&) = default;
};

// The filters in the order in which the writer applied them. zlib may occur at most once.
using filter_chain = std::vector<chain_filter>;

// The maximum size of a stored or decoded chunk. HDF5 recommends chunks of some MiB.
inline constexpr std::uint64_t chunk_bytes_max = std::uint64_t{1} << 30;

// The decoder first takes `stored_bytes` bytes, then writes `decoded_bytes` bytes.
result<std::unique_ptr<decoder>> make_chain_decoder(filter_chain filters,
                                                    std::uint64_t stored_bytes,
                                                    std::uint64_t decoded_bytes);

}  // namespace ringload::inline v0
