// SPDX-License-Identifier: Apache-2.0
#pragma once

// Filters of HDF5 in any order. They work on a whole chunk, so the chunk is held, as it is stored
// and decoded. The usual order needs none of this: stored_stream says shuffle, codec and checksum.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/fault.hpp"
#include "decoding/decoder.hpp"

namespace ringload::inline v0 {

struct chain_filter {
  enum class kind : std::uint8_t { shuffle, zlib, fletcher32 };

  kind what = kind::shuffle;
  std::uint32_t element_bytes = 0;  // Of a shuffle.

  friend bool operator==(const chain_filter&, const chain_filter&) = default;
};

// In the order in which they were applied when the chunk was written; zlib is there once at most.
using filter_chain = std::vector<chain_filter>;

// What is larger is refused, stored or decoded; HDF5 itself advises chunks of some MiB.
inline constexpr std::uint64_t chunk_bytes_max = std::uint64_t{1} << 30;

// Takes all of `stored_bytes`, then gives all of `decoded_bytes`.
result<std::unique_ptr<decoder>> make_chain_decoder(filter_chain filters,
                                                    std::uint64_t stored_bytes,
                                                    std::uint64_t decoded_bytes);

}  // namespace ringload::inline v0
