// SPDX-License-Identifier: Apache-2.0

#include "ranks/redistribute.hpp"

#include <algorithm>
#include <ringload/error.hpp>

#include "base/printable.hpp"
#include "catalog/named_catalog.hpp"
#include "load/tensor_storage.hpp"

namespace ringload::inline v0::detail {

namespace {

// The bytes of a piece within the whole tensor.
struct byte_range {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

byte_range range_of(const read_piece& piece, const tensor_info& info) noexcept {
  if (piece.whole) return {0, static_cast<std::size_t>(info.bytes)};
  const std::uint64_t row_bytes = info.bytes / info.shape.front();
  return {static_cast<std::size_t>(piece.rows.begin * row_bytes),
          static_cast<std::size_t>(piece.rows.count * row_bytes)};
}

row_copy copy_of(std::span<const std::byte> from, std::byte* into) noexcept {
  return {from.data(), into, from.size()};
}

// Memory in which bytes that are not contiguous in a tensor become one message.
class packing_memory {
 public:
  explicit packing_memory(backend& memory) noexcept : memory_(memory) {}

  // Returns memory of at least `bytes` bytes. The memory that an earlier call returned must not be
  // in use.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > bytes_) {
      taken_.reset();
      taken_ = allocate_one(memory_, bytes);
      bytes_ = bytes;
    }
    return taken_->data();
  }

 private:
  backend& memory_;
  std::shared_ptr<arena> taken_;
  std::size_t bytes_ = 0;
};

// The bytes of a piece that one rank needs for its block of the tensor. `indices` are indices of
// the dimension that is split into blocks, counted from the beginning of the piece. `around` is the
// layout of the piece for this dimension: see dimension_bytes. In the block of the rank, the bytes
// begin at the offset `result_begin`.
struct shard_part {
  dimension_bytes around;
  index_range indices;
  std::size_t result_begin = 0;

  std::size_t bytes() const noexcept { return static_cast<std::size_t>(around.bytes_of(indices)); }
};

shard_part shard_part_of(const read_piece& piece, const tensor_info& info, std::uint32_t dim,
                         index_range block) {
  shard_part out;
  std::vector<std::uint64_t> shape = info.shape;
  // `piece.rows` counts stored rows. The load of a quantised tensor can change the number of rows,
  // so a quantised tensor is always one piece.
  const index_range rows = piece.whole ? index_range{0, shape.front()} : piece.rows;
  shape.front() = rows.count;
  // around() returns a value here, because the caller has checked the shape.
  out.around = *around(shape, bits(info.dtype), dim);
  if (dim == 0) {
    const index_range shared = intersection(rows, block);
    out.indices = {shared.begin - rows.begin, shared.count};
    if (shared.count > 0) {
      out.result_begin =
          static_cast<std::size_t>((shared.begin - block.begin) * out.around.inner_bytes);
    }
    return out;
  }
  out.indices = block;
  if (rows.count > 0) {
    const std::uint64_t row = out.around.bytes_of(block) / rows.count;
    out.result_begin = static_cast<std::size_t>(rows.begin * row);
  }
  return out;
}

}  // namespace

std::shared_ptr<arena> allocate_one(backend& memory, std::uint64_t bytes) {
  const arena_size size = {std::max<std::uint64_t>(bytes, 1), gathered_alignment};
  auto taken = memory.allocate_all({&size, 1});
  if (!taken) throw to_error(taken.error());
  return std::move(taken->front());
}

void copy_rows_in(backend& memory, std::span<const row_copy> copies) {
  if (auto copied = memory.copy_rows(copies); !copied) throw to_error(copied.error());
}

tensor tensor_builder::finish() && {
  const std::uint64_t bytes = info_.bytes;
  catalog single;
  // The built tensor is not in a file, but its catalog must list a file.
  single.files.emplace_back();
  info_.file = 0;
  single.tensors.push_back(std::move(info_));
  std::vector<placement> placements(1);
  placements.front().bytes = bytes;
  auto named = std::make_shared<const named_catalog>(std::move(single));
  auto loaded = std::make_shared<const loaded_tensors>(std::move(named), std::move(placements));
  return {std::make_shared<const tensor_storage>(
              std::move(loaded), taken_arena{std::move(memory_), bytes, false, on_}, nullptr),
          0};
}

std::span<const read_piece> redistribution::pieces_of(std::uint32_t t) const noexcept {
  const auto [first, last] = std::ranges::equal_range(pieces_, t, {}, &read_piece::tensor);
  return {first, last};
}

bool redistribution::is_in_blocks(std::uint32_t t, const tensor_info& info) const noexcept {
  if (info.shape.empty()) return false;
  const std::uint64_t rows = info.shape.front();
  std::uint64_t next = 0;  // First row that is in no piece yet.
  for (const read_piece& piece : pieces_of(t)) {
    if (piece.rows.begin != next || piece.rows != block_of(rows, piece.rank, group_.size()))
      return false;
    next = piece.rows.end();
  }
  return next > 0 && next == rows;
}

tensor redistribution::own_block(std::uint32_t t, const tensor_info& info) {
  for (const read_piece& piece : pieces_of(t)) {
    if (piece.rank == group_.rank()) return own_piece(piece, info);
  }
  return {};
}

tensor redistribution::own_piece(const read_piece& piece, const tensor_info& info) {
  tensor loaded;
  const auto later = later_pieces_.find(piece.tensor);
  if (later == later_pieces_.end()) {
    loaded = own_pieces_.at(info.name);
  } else {
    if (!later->second) {
      selection again = select().names({info.name});
      if (!piece.whole) again.slice(info.name, 0, piece.rows.begin, piece.rows.count);
      later->second = reread_(again).at(info.name);
    }
    loaded = later->second;
  }
  const std::size_t expected = range_of(piece, info).bytes;
  if (loaded.size_bytes() != expected) {
    throw error(errc::wrong_tensor_bytes, tensor_place(info.name),
                "the loaded piece has " + grouped(loaded.size_bytes()) + " bytes, expected " +
                    grouped(expected));
  }
  return loaded;
}

std::span<const std::byte> redistribution::bytes_of(const read_piece& piece,
                                                    const tensor_info& info) {
  const tensor loaded = own_piece(piece, info);
  return {static_cast<const std::byte*>(loaded.data()), loaded.size_bytes()};
}

void redistribution::gather(std::span<const gathered_tensor> tensors, std::span<std::byte> into) {
  std::vector<row_copy> copies;
  std::vector<gathered_part> parts;
  std::size_t end = 0;  // The end of the previous tensor.
  for (const gathered_tensor& next : tensors) {
    if (next.offset > end) copies.push_back({nullptr, into.data() + end, next.offset - end});
    end = next.offset + static_cast<std::size_t>(next.info->bytes);
    for (const read_piece& piece : pieces_of(next.index)) {
      byte_range range = range_of(piece, *next.info);
      if (range.bytes == 0) continue;
      range.begin += next.offset;
      if (piece.rank == group_.rank()) {
        copies.push_back(copy_of(bytes_of(piece, *next.info), into.data() + range.begin));
      }
      if (parts.empty() || parts.back().root != piece.rank) {
        parts.push_back({into.subspan(range.begin, 0), piece.rank});
      }
      std::byte* const begin = parts.back().bytes.data();
      parts.back().bytes = {begin, into.data() + range.begin + range.bytes};
    }
  }
  copy_rows_in(memory_, copies);
  group_.all_gather(parts);
}

void redistribution::push(std::uint32_t t, const tensor_info& info, std::uint32_t receiver,
                          std::span<std::byte> into) {
  for (const read_piece& piece : pieces_of(t)) {
    const byte_range range = range_of(piece, info);
    if (range.bytes == 0) continue;
    if (group_.rank() == receiver && piece.rank == receiver) {
      const row_copy own_copy = copy_of(bytes_of(piece, info), into.data() + range.begin);
      copy_rows_in(memory_, {&own_copy, 1});
    } else if (group_.rank() == receiver) {
      group_.receive(into.subspan(range.begin, range.bytes), piece.rank);
    } else if (group_.rank() == piece.rank) {
      group_.send(bytes_of(piece, info), receiver);
    }
  }
}

void redistribution::gather_shard(std::uint32_t t, const tensor_info& info, std::uint32_t dim,
                                  std::span<std::byte> into) {
  const std::uint32_t own_rank = group_.rank();
  packing_memory packed(memory_);
  const auto part_of = [&](const read_piece& piece, std::uint32_t rank) {
    return shard_part_of(piece, info, dim, block_of(info.shape[dim], rank, group_.size()));
  };
  for (const read_piece& piece : pieces_of(t)) {
    const shard_part own_part = part_of(piece, own_rank);
    const auto region = into.subspan(own_part.result_begin, own_part.bytes());
    if (piece.rank != own_rank) {
      if (!region.empty()) group_.receive(region, piece.rank);
      continue;
    }
    const std::byte* const from = bytes_of(piece, info).data();
    if (!region.empty()) {
      const row_copy own_copy = take_block(from, own_part.around, own_part.indices, region.data());
      copy_rows_in(memory_, {&own_copy, 1});
    }
    for (std::uint32_t rank = 0; rank < group_.size(); ++rank) {
      const shard_part part = part_of(piece, rank);
      if (rank == own_rank || part.bytes() == 0) continue;
      const std::byte* begin = from + part.indices.begin * part.around.inner_bytes;
      if (part.around.outer != 1) {
        std::byte* const dense = packed.at_least(part.bytes());
        const row_copy packing = take_block(from, part.around, part.indices, dense);
        copy_rows_in(memory_, {&packing, 1});
        begin = dense;
      }
      group_.send({begin, part.bytes()}, rank);
    }
  }
}

}  // namespace ringload::inline v0::detail
