// SPDX-License-Identifier: Apache-2.0
#pragma once

// Each rank (process or thread of a group) has read some pieces of the tensors. A `redistribution`
// sends each piece to the ranks that need it.
//
// All ranks process the pieces of a tensor in the same order. Only the rank that has read a piece
// sends the piece. Therefore the ranks cannot deadlock. Empty messages are neither sent nor
// received. All functions block, and throw the exceptions of the group.
//
// A program can receive the memory of a piece without a copy: see lend(). The program may then
// change these bytes. Therefore the piece is read again before its next use.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ringload/group.hpp>
#include <ringload/model.hpp>
#include <ringload/selection.hpp>
#include <ringload/tensor.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "device/backend.hpp"
#include "ranks/split_work.hpp"
#include "ranks/tensor_builder.hpp"

namespace ringload::inline v0::detail {

// A tensor that all ranks need: its index in the catalog, its description in memory, and the offset
// of its bytes in the memory of the receiver.
struct gathered_tensor {
  std::uint32_t index = 0;
  const tensor_info* info = nullptr;
  std::size_t offset = 0;
};

class redistribution {
 public:
  // `read_pieces` contains the pieces that this rank has read. The name of a piece in this model is
  // the name of its tensor. `pieces` lists the pieces of all ranks and must be sorted by tensor.
  // `memory` is the backend of the device that the pieces are on. The messages of `rank_group`
  // must be in this memory. `reread` reads a selection of this rank again.
  redistribution(group& rank_group, backend& memory, std::vector<read_piece> pieces,
                 model read_pieces, std::function<model(const selection&)> reread)
      : group_(rank_group),
        memory_(memory),
        pieces_(std::move(pieces)),
        own_pieces_(std::move(read_pieces)),
        reread_(std::move(reread)) {}

  // All ranks must call the same function for the same tensor. `t` is the index of the tensor in
  // the catalog. `info` describes the tensor in memory. The functions throw
  // errc::wrong_tensor_bytes if a piece of this rank has another size than `info` requires, and the
  // exceptions of `reread`.

  // All ranks receive the whole tensors. The tensors must be sorted by index, and their offsets
  // must ascend. Each run of neighbouring pieces that the same rank has read is sent as one part,
  // with the gaps between tensors. The bytes of these gaps become 0.
  void gather(std::span<const gathered_tensor> tensors, std::span<std::byte> into);
  // Only the rank `receiver` receives the tensor.
  void push(std::uint32_t t, const tensor_info& info, std::uint32_t receiver,
            std::span<std::byte> into);
  // Each rank receives its block of the tensor in dimension `dim`.
  void gather_shard(std::uint32_t t, const tensor_info& info, std::uint32_t dim,
                    std::span<std::byte> into);

  // Returns true if each rank has read exactly its own block of the tensor in dimension 0. The
  // result is the same on all ranks.
  bool is_in_blocks(std::uint32_t t, const tensor_info& info) const noexcept;
  // Returns the block of this rank without a copy. Must be called only if is_in_blocks(). If the
  // block of this rank is empty, returns an empty handle.
  tensor own_block(std::uint32_t t, const tensor_info& info);
  // Must be called when the program receives the result of own_block(). The next use then reads the
  // piece again.
  void lend(std::uint32_t t) { later_pieces_.insert_or_assign(t, tensor()); }

  const model& own_pieces() const noexcept { return own_pieces_; }

 private:
  std::span<const read_piece> pieces_of(std::uint32_t t) const noexcept;
  tensor own_piece(const read_piece& piece, const tensor_info& info);
  std::span<const std::byte> bytes_of(const read_piece& piece, const tensor_info& info);

  group& group_;
  backend& memory_;
  const std::vector<read_piece> pieces_;
  const model own_pieces_;
  const std::function<model(const selection&)> reread_;
  // Pieces that the program has received, by tensor. An element is an empty handle until the piece
  // is read again, and then the new piece.
  std::map<std::uint32_t, tensor> later_pieces_;
};

}  // namespace ringload::inline v0::detail
