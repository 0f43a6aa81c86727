// SPDX-License-Identifier: Apache-2.0

#include "ranks/split_work.hpp"

#include <algorithm>

namespace ringload::inline v0::detail {

namespace {

// Can represent the product of a number of bytes (64 bits) and a number of ranks (32 bits).
using wide = unsigned __int128;

std::uint64_t stored_bytes(const tensor_info& t) noexcept {
  return t.stored_bytes > 0 ? t.stored_bytes : t.bytes;
}

// Returns the number of parts into which a tensor can be split: its rows, or 1.
std::uint64_t rows_of(const tensor_info& t) noexcept {
  if (!t.encoding.empty() || !t.original_shape.empty() || t.shape.empty()) return 1;
  if (t.bytes == 0 || stored_bytes(t) != t.bytes) return 1;
  return t.bytes % t.shape.front() == 0 ? t.shape.front() : 1;
}

// Returns the offset at which the share of `rank` begins, if `total` bytes are divided equally.
wide first_byte(wide total, std::uint32_t rank, std::uint32_t ranks) noexcept {
  return (total * rank + ranks - 1) / ranks;
}

// The tensor has `rows` rows and begins at offset `begin`. Returns the first row that begins at or
// after offset `byte`, or `rows` if all rows begin earlier.
std::uint64_t row_at(wide byte, wide begin, std::uint64_t rows, std::uint64_t row_bytes) noexcept {
  if (byte <= begin) return 0;
  if (row_bytes == 0) return rows;
  return static_cast<std::uint64_t>(
      std::min<wide>(rows, (byte - begin + row_bytes - 1) / row_bytes));
}

// Returns true if the tensor is divided into one block of rows for each rank.
bool has_blocks(const tensor_info& t, std::uint32_t ranks, const work_division& division) noexcept {
  const std::uint64_t rows = rows_of(t);
  if (!division.may_split || ranks == 1 || rows == 1) return false;
  const std::uint64_t length = block_of(rows, 0, ranks).count;
  const wide excess = wide{length} * ranks - rows;
  return excess <= rows / 16 && wide{length} * (t.bytes / rows) >= division.block_bytes_min;
}

}  // namespace

std::vector<read_piece> split_work(const catalog& contents, std::uint32_t ranks,
                                   const work_division& division) {
  wide total = 0;  // Bytes of the tensors that are not divided into blocks.
  for (const tensor_info& t : contents.tensors) {
    if (!has_blocks(t, ranks, division)) total += stored_bytes(t);
  }
  std::vector<read_piece> pieces;
  wide begin = 0;
  std::uint32_t rank = 0;
  for (std::uint32_t t = 0; t < contents.tensors.size(); ++t) {
    const tensor_info& info = contents.tensors[t];
    if (has_blocks(info, ranks, division)) {
      for (std::uint32_t reader = 0; reader < ranks; ++reader) {
        const index_range block = block_of(info.shape.front(), reader, ranks);
        if (block.count > 0) pieces.push_back({t, reader, block, false});
      }
      continue;
    }
    const std::uint64_t units = division.may_split ? rows_of(info) : 1;
    const std::uint64_t unit_bytes = stored_bytes(info) / units;
    const std::uint64_t rows = info.shape.empty() ? 1 : info.shape.front();
    std::uint64_t next = 0;  // First row that is not assigned yet.
    for (bool more = true; more;) {
      while (rank + 1 < ranks &&
             first_byte(total, rank + 1, ranks) <= begin + wide{next} * unit_bytes) {
        ++rank;
      }
      std::uint64_t end = units;
      if (rank + 1 < ranks && unit_bytes > 0) {
        end = row_at(first_byte(total, rank + 1, ranks), begin, units, unit_bytes);
      }
      const bool whole = next == 0 && end == units;
      pieces.push_back(
          {t, rank, whole ? index_range{0, rows} : index_range{next, end - next}, whole});
      next = end;
      more = next < units;
    }
    begin += stored_bytes(info);
  }
  return pieces;
}

index_range block_of(std::uint64_t size, std::uint32_t rank, std::uint32_t ranks) noexcept {
  const std::uint64_t length = size / ranks + (size % ranks > 0 ? 1 : 0);
  const auto begin = static_cast<std::uint64_t>(std::min<wide>(wide{length} * rank, size));
  return {begin, std::min(length, size - begin)};
}

index_range intersection(index_range a, index_range b) noexcept {
  const std::uint64_t begin = std::max(a.begin, b.begin);
  const std::uint64_t end = std::min(a.end(), b.end());
  return {begin, end > begin ? end - begin : 0};
}

std::optional<dimension_bytes> around(std::span<const std::uint64_t> shape, unsigned element_bits,
                                      std::uint32_t dim) noexcept {
  if (dim >= shape.size()) return std::nullopt;
  dimension_bytes out;
  for (std::uint32_t d = 0; d < dim; ++d) out.outer *= shape[d];
  out.size = shape[dim];
  std::uint64_t inner_bits = element_bits;
  for (std::size_t d = dim + 1; d < shape.size(); ++d) inner_bits *= shape[d];
  if (inner_bits % 8 != 0) return std::nullopt;
  out.inner_bytes = inner_bits / 8;
  return out;
}

row_copy take_block(const std::byte* from, const dimension_bytes& dim, index_range indices,
                    std::byte* into) noexcept {
  const std::uint64_t run = indices.count * dim.inner_bytes;
  return {from + indices.begin * dim.inner_bytes,
          into,
          run,
          dim.outer,
          dim.size * dim.inner_bytes,
          run};
}

row_copy put_block(const std::byte* from, index_range indices, const dimension_bytes& dim,
                   std::byte* into) noexcept {
  const std::uint64_t run = indices.count * dim.inner_bytes;
  return {from, into + indices.begin * dim.inner_bytes,
          run,  dim.outer,
          run,  dim.size * dim.inner_bytes};
}

}  // namespace ringload::inline v0::detail
