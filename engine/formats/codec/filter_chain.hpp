// SPDX-License-Identifier: Apache-2.0
#pragma once

// HDF5 filters in any order. They work on a whole chunk, so the chunk is held in memory, stored and
// decoded. The usual order does not need this: stored_stream describes shuffle, codec and checksum
// directly.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/fault.hpp"
#include "formats/codec/decoder.hpp"

namespace ringload::inline v0 {

struct chain_filter {
  enum class kind : std::uint8_t { shuffle, zlib, fletcher32 };

  kind filter = kind::shuffle;
  std::uint32_t element_bytes = 0;  // Only for a shuffle.

  friend bool operator==(const chain_filter&, const chain_filter&) = default;
};

// The filters in the order of the writer. zlib may occur at most once.
using filter_chain = std::vector<chain_filter>;

// Larger chunks, stored or decoded, are refused. HDF5 recommends chunks of some MiB.
inline constexpr std::uint64_t chunk_bytes_max = std::uint64_t{1} << 30;

// The decoder takes all of `stored_bytes`, then gives all of `decoded_bytes`.
result<std::unique_ptr<decoder>> make_chain_decoder(filter_chain filters,
                                                    std::uint64_t stored_bytes,
                                                    std::uint64_t decoded_bytes);

}  // namespace ringload::inline v0
