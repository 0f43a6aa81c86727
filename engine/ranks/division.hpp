// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who reads what, and who needs what of it. Pure functions over a catalog.
//
//   bytes of all tensors   |aaaa|bbbbbbbbbbbbbbbb|cc|dddddddd|
//   of 3 ranks             0---------1---------2---------      cut at the next row of dimension 0

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

// Indices [begin, begin + count) of dimension 0 of a tensor, that one rank reads. Of a tensor that
// is not cut, or has no dimension, there is one piece, with all of it.
struct read_piece {
  std::uint32_t tensor = 0;
  std::uint32_t rank = 0;
  index_range rows;
  bool whole = true;
};

// Every tensor once, in the catalog's order; the stored bytes of each rank are as many as
// of any other, but for less than one row of one tensor at each end. Cut are tensors that lie in
// their file as they are; others, and with `cut` false all, belong to who has their first byte.
std::vector<read_piece> divided(const catalog& all, std::uint32_t ranks, bool cut);

// The block of a rank: ceil(size / ranks) indices, the last ones fewer or none.
index_range block_of(std::uint64_t size, std::uint32_t rank, std::uint32_t ranks) noexcept;

// What both have.
index_range common(index_range a, index_range b) noexcept;

// A tensor's bytes around one of its dimensions: `outer` times `size` runs of `inner_bytes`.
struct dimension_bytes {
  std::uint64_t outer = 1;
  std::uint64_t size = 1;
  std::uint64_t inner_bytes = 0;

  std::uint64_t bytes_of(index_range of) const noexcept { return outer * of.count * inner_bytes; }
};

// Empty: there is no such dimension, or an index of it is no whole number of bytes.
std::optional<dimension_bytes> around(std::span<const std::uint64_t> shape, unsigned element_bits,
                                      std::uint32_t dim) noexcept;

// Copies the indices `what` of the dimension: into memory where nothing else lies, and from there.
void take_block(const std::byte* from, const dimension_bytes& of, index_range what,
                std::byte* into) noexcept;
void put_block(const std::byte* from, index_range what, const dimension_bytes& of,
               std::byte* into) noexcept;

}  // namespace ringload::inline v0::detail
