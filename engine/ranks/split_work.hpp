// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides which rank reads which bytes, and which ranks need them. Pure functions over a catalog.
//
//   bytes of all tensors   |aaaa|bbbbbbbbbbbbbbbb|cc|dddddddd|
//   shares of 3 ranks      0---------1---------2---------      cut at the next row of dimension 0

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <span>
#include <vector>

namespace ringload::inline v0::detail {

struct index_range {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;

  std::uint64_t end() const noexcept { return begin + count; }
  friend bool operator==(const index_range&, const index_range&) noexcept = default;
};

// Indices [begin, begin + count) of dimension 0 of a tensor that one rank reads. A tensor that is
// not split, or has no dimension, is one piece.
struct read_piece {
  std::uint32_t tensor = 0;
  std::uint32_t rank = 0;
  index_range rows;
  bool whole = true;
};

// Returns each tensor once, in the catalog's order. All ranks get the same number of stored bytes,
// except for less than one row of a tensor at each end. Only uncompressed tensors are split. Every
// other tensor, and every tensor if `cut` is false, belongs to the rank that owns its first byte.
std::vector<read_piece> divided(const catalog& contents, std::uint32_t ranks, bool cut);

// Returns the block of a rank: ceil(size / ranks) indices. The last blocks have fewer or none.
index_range block_of(std::uint64_t size, std::uint32_t rank, std::uint32_t ranks) noexcept;

// Returns the intersection.
index_range common(index_range a, index_range b) noexcept;

// The bytes around one dimension of a tensor: `outer` times `size` runs of `inner_bytes`.
struct dimension_bytes {
  std::uint64_t outer = 1;
  std::uint64_t size = 1;
  std::uint64_t inner_bytes = 0;

  std::uint64_t bytes_of(index_range indices) const noexcept {
    return outer * indices.count * inner_bytes;
  }
};

// Returns nothing if the dimension does not exist or one of its indices is not a whole number of
// bytes.
std::optional<dimension_bytes> around(std::span<const std::uint64_t> shape, unsigned element_bits,
                                      std::uint32_t dim) noexcept;

// Copy the indices `indices` of the dimension: take_block() into dense memory, put_block() out of
// it.
void take_block(const std::byte* from, const dimension_bytes& dim, index_range indices,
                std::byte* into) noexcept;
void put_block(const std::byte* from, index_range indices, const dimension_bytes& dim,
               std::byte* into) noexcept;

}  // namespace ringload::inline v0::detail
