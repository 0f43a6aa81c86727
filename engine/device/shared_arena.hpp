// SPDX-License-Identifier: Apache-2.0
#pragma once

// An arena that other processes can map after it is sealed, or that another process has sealed.

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/shared_memory.hpp"
#include "device/backend.hpp"

namespace ringload::inline v0 {

class shared_arena final : public arena {
 public:
  explicit shared_arena(shared_memory memory) noexcept : memory_(std::move(memory)) {}
  // Sealed by another process. `keeps` lives as long as the arena.
  shared_arena(shared_memory sealed, std::shared_ptr<const void> keeps) noexcept
      : keeps_(std::move(keeps)), memory_(std::move(sealed)), sealed_(true) {}

  std::byte* data() const noexcept override { return memory_.span().data(); }
  bool was_kept() const noexcept override { return false; }
  bool populated() const noexcept override { return sealed_; }
  bool read_only() const noexcept override { return sealed_; }
  int descriptor() const noexcept override { return memory_.descriptor(); }

  std::span<std::byte> span() const noexcept { return memory_.span(); }

  // Thread-safe. The tensors are read-only afterwards.
  result<void> seal() {
    const std::lock_guard lock(sealing_);
    if (sealed_) return {};
    if (auto done = memory_.seal(); !done) return done.error();
    sealed_ = true;
    return {};
  }

 private:
  const std::shared_ptr<const void> keeps_;  // Destroyed after the memory.
  shared_memory memory_;
  std::mutex sealing_;
  std::atomic<bool> sealed_ = false;
};

}  // namespace ringload::inline v0
