// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sends the pieces that each rank has read to the ranks that need them. Every rank processes the
// pieces of a tensor in the same order, and only the owner of a piece sends it, so ranks cannot
// deadlock. Empty messages are neither sent nor received. All functions block, and pass on the
// exceptions of the group.

#include <cstdint>
#include <memory>
#include <ringload/group.hpp>
#include <ringload/model.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "ranks/split_work.hpp"
#include "ranks/tensor_builder.hpp"

namespace ringload::inline v0::detail {

class exchange {
 public:
  // `read_pieces` contains the pieces that this rank has read, under the names of their tensors.
  // `pieces` must be sorted by tensor.
  exchange(group& ranks, std::vector<read_piece> pieces, model read_pieces)
      : group_(ranks), pieces_(std::move(pieces)), own_pieces_(std::move(read_pieces)) {}

  // Assembles the whole tensor `t` on every rank, in `into`.
  void whole(std::uint32_t t, const tensor_builder& into);
  // Assembles the tensor on rank `to` only.
  void push(std::uint32_t t, const tensor_info& landed, std::uint32_t to,
            std::span<std::byte> into);
  // Assembles this rank's block of the tensor.
  void block(std::uint32_t t, const tensor_info& landed, std::uint32_t dim,
             std::span<std::byte> into);

  const model& own_pieces() const noexcept { return own_pieces_; }

 private:
  std::span<const read_piece> pieces_of(std::uint32_t t) const noexcept;
  std::span<const std::byte> bytes_of(const std::string& name) const;

  group& group_;
  const std::vector<read_piece> pieces_;
  const model own_pieces_;
};

}  // namespace ringload::inline v0::detail
