// SPDX-License-Identifier: Apache-2.0
#pragma once

// An arena (an allocation for tensors) that consists of one memory block. The destructor returns
// the block to the free list of the backend. If the list no longer exists, the destructor frees the
// block.

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/free_list.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0 {

// `Block` must have data() and meet the requirements of free_list.
template <class Block>
class block_arena final : public arena {
 public:
  block_arena(Block memory, bool was_kept, bool populated,
              std::weak_ptr<free_list<Block>> home) noexcept
      : memory_(std::move(memory)),
        was_kept_(was_kept),
        populated_(populated),
        home_(std::move(home)) {}
  block_arena(const block_arena&) = delete;
  block_arena& operator=(const block_arena&) = delete;

  ~block_arena() override {
    if (const auto home = home_.lock()) home->put(std::move(memory_));
  }

  std::byte* data() const noexcept override { return memory_.data(); }
  bool was_kept() const noexcept override { return was_kept_; }
  bool populated() const noexcept override { return populated_; }
  mapping* host_mapping() noexcept override {
    if constexpr (std::is_same_v<Block, mapping>) {
      return &memory_;
    } else {
      return nullptr;
    }
  }

  const Block& block() const noexcept { return memory_; }

 private:
  Block memory_;
  const bool was_kept_;
  const bool populated_;
  const std::weak_ptr<free_list<Block>> home_;
};

}  // namespace ringload::inline v0
