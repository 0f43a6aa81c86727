// SPDX-License-Identifier: Apache-2.0
#pragma once

// Keeps freed memory for later loads. Reuse is faster than new memory: the kernel must zero new
// pages, and a release of GPU memory waits until the GPU is idle.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

// A Block must be movable and have `bytes()`. The destructor of a Block must free its memory. The
// list is thread-safe.
template <class Block>
class free_list {
 public:
  // Keeps blocks of at least `bytes_min` bytes. Keeps at most `bytes_max` bytes in total.
  explicit free_list(std::uint64_t bytes_max, std::uint64_t bytes_min = 0) noexcept
      : bytes_max_(bytes_max), bytes_min_(bytes_min) {}

  // Removes and returns the smallest block that has at least `bytes` bytes and is at most a quarter
  // larger. Returns an empty optional if no block has a suitable size.
  std::optional<Block> take(std::uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    auto best = blocks_.end();
    for (auto candidate = blocks_.begin(); candidate != blocks_.end(); ++candidate) {
      if (!is_suitable(*candidate, bytes)) continue;
      if (best == blocks_.end() || candidate->bytes() < best->bytes()) best = candidate;
    }
    if (best == blocks_.end()) return std::nullopt;
    std::optional<Block> found(std::move(*best));
    blocks_.erase(best);
    return found;
  }

  // Returns true if take() would return a block.
  bool has(std::uint64_t bytes) const noexcept {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(blocks_,
                               [&](const Block& block) { return is_suitable(block, bytes); });
  }

  // Adds a block, and frees the oldest blocks if the list would have more than `bytes_max` bytes.
  // If the size of `block` is outside the limits, or if memory is exhausted, frees `block` and does
  // not change the list.
  void put(Block block) noexcept {
    if (block.bytes() > bytes_max_ || block.bytes() < bytes_min_) return;
    std::vector<Block> evicted;  // Freed after the lock is released, because freeing may take long.
    const std::lock_guard lock(mutex_);
    try {
      evicted.reserve(blocks_.size());
      blocks_.reserve(blocks_.size() + 1);
    } catch (const std::bad_alloc&) {
      return;
    }
    std::uint64_t bytes_left = bytes_max_ - block.bytes();
    auto first = blocks_.end();
    while (first != blocks_.begin() && std::prev(first)->bytes() <= bytes_left) {
      --first;
      bytes_left -= first->bytes();
    }
    std::move(blocks_.begin(), first, std::back_inserter(evicted));
    blocks_.erase(blocks_.begin(), first);
    blocks_.push_back(std::move(block));
  }

  void clear() noexcept {
    std::vector<Block> evicted;
    const std::lock_guard lock(mutex_);
    evicted.swap(blocks_);
  }

  std::uint64_t bytes() const noexcept {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const Block& block : blocks_) sum += block.bytes();
    return sum;
  }

 private:
  static bool is_suitable(const Block& block, std::uint64_t bytes) noexcept {
    return block.bytes() >= bytes && block.bytes() - bytes <= bytes / 4;
  }

  const std::uint64_t bytes_max_;
  const std::uint64_t bytes_min_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;  // The oldest block is first.
};

}  // namespace ringload::inline v0
