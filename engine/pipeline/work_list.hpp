// SPDX-License-Identifier: Apache-2.0
#pragma once

// Indices of work to be done, each taken once: prioritized ones first come, first served, the
// others in the order in which they were added. Not thread safe.

#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <vector>

namespace ringload::inline v0::detail {

class work_list {
 public:
  // For the indices 0 to count - 1; none of them has been added.
  explicit work_list(std::uint32_t count = 0) : taken_(count) { added_.reserve(count); }

  // Each index once.
  void add(std::uint32_t index) { added_.push_back(index); }
  void add_all() {
    added_.resize(taken_.size());
    std::iota(added_.begin(), added_.end(), 0U);
  }
  // Also one that has not been added, and any number of times.
  void prioritize(std::uint32_t index) {
    if (!taken_[index]) prioritized_.push_back(index);
  }
  bool has_prioritized() const noexcept { return !prioritized_.empty(); }

  std::optional<std::uint32_t> take_prioritized() {
    while (!prioritized_.empty()) {
      const std::uint32_t index = prioritized_.front();
      prioritized_.pop_front();
      if (take(index)) return index;
    }
    return std::nullopt;
  }
  std::optional<std::uint32_t> take_next() {
    while (next_ < added_.size()) {
      const std::uint32_t index = added_[next_++];
      if (take(index)) return index;
    }
    return std::nullopt;
  }

  // Taken and not yet done.
  std::uint32_t in_progress() const noexcept { return in_progress_; }
  void done() noexcept { --in_progress_; }

 private:
  bool take(std::uint32_t index) {
    if (taken_[index]) return false;
    taken_[index] = true;
    ++in_progress_;
    return true;
  }

  std::vector<bool> taken_;
  std::vector<std::uint32_t> added_;
  std::size_t next_ = 0;  // Of added_.
  std::deque<std::uint32_t> prioritized_;
  std::uint32_t in_progress_ = 0;
};

}  // namespace ringload::inline v0::detail
