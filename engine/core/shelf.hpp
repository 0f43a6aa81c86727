// SPDX-License-Identifier: Apache-2.0
#pragma once

// Large memory that its user has let go of, kept for the next who needs as much: new memory must be
// zeroed by the kernel, and a GPU must come to rest before it gives memory back.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

// A Block owns memory and gives it back when it is destroyed: it has `bytes()` and can be moved.
// Any thread.
template <class Block>
class shelf {
 public:
  // Keeps at most `bytes_max` in all, and no block that has less than `bytes_min`.
  explicit shelf(std::uint64_t bytes_max, std::uint64_t bytes_min = 0) noexcept
      : bytes_max_(bytes_max), bytes_min_(bytes_min) {}

  // The smallest that has so many bytes, unless it has more than a quarter too much.
  std::optional<Block> take(std::uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    auto best = kept_.end();
    for (auto one = kept_.begin(); one != kept_.end(); ++one) {
      if (one->bytes() < bytes || one->bytes() - bytes > bytes / 4) continue;
      if (best == kept_.end() || one->bytes() < best->bytes()) best = one;
    }
    if (best == kept_.end()) return std::nullopt;
    std::optional<Block> found(std::move(*best));
    kept_.erase(best);
    return found;
  }

  // What has lain here longest makes room for it.
  void put(Block block) noexcept {
    if (block.bytes() > bytes_max_ || block.bytes() < bytes_min_) return;
    std::vector<Block> gone;  // Given back outside of the lock: that may take long.
    const std::lock_guard lock(mutex_);
    try {
      gone.reserve(kept_.size());
      kept_.reserve(kept_.size() + 1);
    } catch (const std::bad_alloc&) {
      return;
    }
    std::uint64_t room = bytes_max_ - block.bytes();
    auto first = kept_.end();
    while (first != kept_.begin() && std::prev(first)->bytes() <= room) {
      --first;
      room -= first->bytes();
    }
    std::move(kept_.begin(), first, std::back_inserter(gone));
    kept_.erase(kept_.begin(), first);
    kept_.push_back(std::move(block));
  }

  void clear() noexcept {
    std::vector<Block> gone;
    const std::lock_guard lock(mutex_);
    gone.swap(kept_);
  }

  std::uint64_t bytes() const noexcept {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const Block& one : kept_) sum += one.bytes();
    return sum;
  }

 private:
  const std::uint64_t bytes_max_;
  const std::uint64_t bytes_min_;
  mutable std::mutex mutex_;
  std::vector<Block> kept_;  // In the order in which they came.
};

}  // namespace ringload::inline v0
