// SPDX-License-Identifier: Apache-2.0
#pragma once

// A list of indices of work items. Each index is taken at most once. take_prioritized() returns the
// indices that were passed to prioritize(), in the order of the calls. take_next() returns all
// added indices, in the order of add(). Both functions skip indices that were taken before. A list
// has one or more independent queues. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace ringload::inline v0::detail {

class work_list {
 public:
  // The indices are 0 to count - 1. `queue_of` lists the queue of each index. If `queue_of` is
  // empty, all indices are in queue 0.
  explicit work_list(std::uint32_t count = 0, std::vector<std::uint32_t> queue_of = {},
                     std::uint32_t queues = 1)
      : taken_(count), queue_of_(std::move(queue_of)), queues_(queues) {
    if (queues == 1) queues_.front().added.reserve(count);
  }

  // Each index must be added at most once.
  void add(std::uint32_t index) { queue_of(index).added.push_back(index); }
  void add_all() {
    for (std::uint32_t i = 0; i < taken_.size(); ++i) add(i);
  }
  void prioritize(std::uint32_t index) {
    if (!taken_[index]) queue_of(index).prioritized.push_back(index);
  }
  bool has_prioritized() const noexcept {
    return std::ranges::any_of(queues_,
                               [](const queue_state& state) { return !state.prioritized.empty(); });
  }
  // Returns true if the queue has a prioritized index. The index may have been taken already.
  bool has_prioritized(std::uint32_t queue) const noexcept {
    return !queues_[queue].prioritized.empty();
  }
  bool has_next(std::uint32_t queue) const noexcept {
    return queues_[queue].next < queues_[queue].added.size();
  }

  std::optional<std::uint32_t> take_prioritized(std::uint32_t queue = 0) {
    std::deque<std::uint32_t>& prioritized = queues_[queue].prioritized;
    while (!prioritized.empty()) {
      const std::uint32_t index = prioritized.front();
      prioritized.pop_front();
      if (take(index)) return index;
    }
    return std::nullopt;
  }
  std::optional<std::uint32_t> take_next(std::uint32_t queue = 0) {
    queue_state& state = queues_[queue];
    while (state.next < state.added.size()) {
      const std::uint32_t index = state.added[state.next++];
      if (take(index)) return index;
    }
    return std::nullopt;
  }

  std::uint32_t in_progress() const noexcept { return in_progress_; }
  void done() noexcept { --in_progress_; }

 private:
  bool take(std::uint32_t index) {
    if (taken_[index]) return false;
    taken_[index] = true;
    ++in_progress_;
    return true;
  }

  struct queue_state {
    std::vector<std::uint32_t> added;
    std::size_t next = 0;  // Position in `added`.
    std::deque<std::uint32_t> prioritized;
  };

  queue_state& queue_of(std::uint32_t index) {
    return queue_of_.empty() ? queues_.front() : queues_[queue_of_[index]];
  }

  std::vector<bool> taken_;
  std::vector<std::uint32_t> queue_of_;
  std::vector<queue_state> queues_;
  std::uint32_t in_progress_ = 0;
};

}  // namespace ringload::inline v0::detail
