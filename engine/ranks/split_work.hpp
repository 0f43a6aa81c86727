// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides which bytes each rank (process or thread of a group) reads, and which bytes each rank
// needs. Pure functions.
//
// The stored bytes of all tensors are divided into equal shares. The beginning of each share is
// moved to the next row (index of dimension 0):
//
//   bytes of all tensors   |aaaa|bbbbbbbbbbbbbbbb|cc|dddddddd|
//   shares of 3 ranks      |0----------|1----------|2--------|
//
// Large tensors can be divided separately, into one block of rows for each rank. A rank that needs
// only its own block then needs no bytes of other ranks. The shares contain only the other tensors:
//
//   bytes of all tensors   |aaaa|bbbbbbbbbbbbbbbb|cc|dddddddd|
//   blocks of b            |    |0----|1----|2---|  |        |
//   shares of 3 ranks      |0---|                |1-|2-------|

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ringload/catalog.hpp>
#include <span>
#include <vector>

#include "device/row_copy.hpp"

namespace ringload::inline v0::detail {

struct index_range {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;

  std::uint64_t end() const noexcept { return begin + count; }
  friend bool operator==(const index_range&, const index_range&) noexcept = default;
};

// The part of a tensor that one rank reads. `rows` are indices of dimension 0. A tensor without
// dimensions has one row.
struct read_piece {
  std::uint32_t tensor = 0;
  std::uint32_t rank = 0;
  index_range rows;
  bool whole = true;
};

// How split_work() divides tensors.
struct work_division {
  static constexpr std::uint64_t no_blocks = ~std::uint64_t{0};

  bool may_split = true;  // If false, each tensor is read by one rank.
  // The minimum size of the first block of rows. A tensor with a smaller first block is not divided
  // into blocks.
  std::uint64_t block_bytes_min = no_blocks;
};

// Divides the stored bytes of all tensors among the ranks. Returns pieces in the order of the
// catalog. Each row is in exactly one piece. The shares differ slightly in size, because each share
// begins and ends at a row. Encoded and quantised tensors are not split. A tensor that is not split
// is read by the rank whose share contains its first byte. A tensor is not divided into blocks if
// the blocks of block_of() would exceed its rows by more than 1/16, because the first ranks would
// then read more than the last ranks.
std::vector<read_piece> split_work(const catalog& contents, std::uint32_t ranks,
                                   const work_division& division);

// Divides the indices of a dimension of `size` indices into one block for each rank. Returns the
// block of `rank`. Each block has ceil(size / ranks) indices, but the last blocks may be shorter or
// empty.
index_range block_of(std::uint64_t size, std::uint32_t rank, std::uint32_t ranks) noexcept;

index_range intersection(index_range a, index_range b) noexcept;

// The layout of a tensor around one dimension, which has `size` indices. The tensor consists of
// `outer` * `size` groups of `inner_bytes` contiguous bytes. Group g has the index g % `size`.
struct dimension_bytes {
  std::uint64_t outer = 1;
  std::uint64_t size = 1;
  std::uint64_t inner_bytes = 0;

  std::uint64_t bytes_of(index_range indices) const noexcept {
    return outer * indices.count * inner_bytes;
  }
};

// Returns the layout around dimension `dim`. Returns an empty optional if the dimension does not
// exist, or if `inner_bytes` would not be an integer.
std::optional<dimension_bytes> around(std::span<const std::uint64_t> shape, unsigned element_bits,
                                      std::uint32_t dim) noexcept;

// These functions only describe a copy of the elements at `indices` of the dimension `dim`.
// take_block() describes a copy from a tensor to contiguous memory, and put_block() a copy from
// contiguous memory to a tensor.
row_copy take_block(const std::byte* from, const dimension_bytes& dim, index_range indices,
                    std::byte* into) noexcept;
row_copy put_block(const std::byte* from, index_range indices, const dimension_bytes& dim,
                   std::byte* into) noexcept;

}  // namespace ringload::inline v0::detail
