// SPDX-License-Identifier: Apache-2.0
#pragma once

// What each rank has read becomes what each rank has asked for. Every rank goes through the pieces
// of a tensor in the same order, and only the one that has a piece sends: so nobody waits in a
// circle. An empty message is neither sent nor received. Blocks; throws what the group throws.

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
  // `own` is what this rank has read: of each tensor its piece, under the tensor's name. `pieces`
  // are in the order of tensors.
  exchange(group& all, std::vector<read_piece> pieces, model own)
      : all_(all), pieces_(std::move(pieces)), own_(std::move(own)) {}

  // The tensor `t`, which `into` is as it lands, on every rank.
  void whole(std::uint32_t t, const tensor_builder& into);
  // On one.
  void push(std::uint32_t t, const tensor_info& landed, std::uint32_t to,
            std::span<std::byte> into);
  // This rank's block of it.
  void block(std::uint32_t t, const tensor_info& landed, std::uint32_t dim,
             std::span<std::byte> into);

  const model& own() const noexcept { return own_; }

 private:
  std::span<const read_piece> pieces_of(std::uint32_t t) const noexcept;
  std::span<const std::byte> bytes_of(const std::string& name) const;

  group& all_;
  const std::vector<read_piece> pieces_;
  const model own_;
};

}  // namespace ringload::inline v0::detail
