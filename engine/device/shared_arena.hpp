// SPDX-License-Identifier: Apache-2.0
#pragma once

// An arena (an allocation for tensors) in shared memory. Other processes can map the memory after
// seal(). Used by shared_host() and for memory that another process has sealed.

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/shared_memory.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0 {

class shared_arena final : public arena, public std::enable_shared_from_this<shared_arena> {
 public:
  explicit shared_arena(shared_memory memory) noexcept : memory_(std::move(memory)) {}
  // Takes ownership of memory that another process has sealed. `keep_alive` is released after the
  // memory is unmapped.
  shared_arena(shared_memory sealed, std::shared_ptr<const void> keep_alive) noexcept
      : keep_alive_(std::move(keep_alive)), memory_(std::move(sealed)), sealed_(true) {}

  std::byte* data() const noexcept override { return memory_.span().data(); }
  bool was_kept() const noexcept override { return false; }
  bool populated() const noexcept override { return sealed_; }
  bool read_only() const noexcept override { return sealed_; }
  int descriptor() const noexcept override { return memory_.descriptor(); }
  mapping* host_mapping() noexcept override { return &memory_.mapped(); }

  std::span<std::byte> span() const noexcept { return memory_.span(); }

  result<void> seal() {
    const std::lock_guard lock(sealing_);
    if (sealed_) return {};
    if (auto done = memory_.seal(); !done) return done.error();
    sealed_ = true;
    return {};
  }

 private:
  const std::shared_ptr<const void> keep_alive_;  // Destroyed after the memory.
  shared_memory memory_;
  std::mutex sealing_;
  std::atomic<bool> sealed_ = false;
};

}  // namespace ringload::inline v0
