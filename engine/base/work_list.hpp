// SPDX-License-Identifier: Apache-2.0
#pragma once

// Indices of work to be done, each taken once: prioritized ones first come, first served, the
// others in the order in which they were added. Where they have lanes, each lane by itself. Not
// thread safe.

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
  // For the indices 0 to count - 1; none of them has been added. `lane_of` is by index; empty: all
  // are in lane 0.
  explicit work_list(std::uint32_t count = 0, std::vector<std::uint32_t> lane_of = {},
                     std::uint32_t lanes = 1)
      : taken_(count), lane_of_(std::move(lane_of)), lanes_(lanes) {
    if (lanes == 1) lanes_.front().added.reserve(count);
  }

  // Each index once.
  void add(std::uint32_t index) { lane_of(index).added.push_back(index); }
  void add_all() {
    for (std::uint32_t i = 0; i < taken_.size(); ++i) add(i);
  }
  // Also one that has not been added, and any number of times.
  void prioritize(std::uint32_t index) {
    if (!taken_[index]) lane_of(index).prioritized.push_back(index);
  }
  bool has_prioritized() const noexcept {
    return std::ranges::any_of(lanes_,
                               [](const lane_work& one) { return !one.prioritized.empty(); });
  }
  // Whether there may be any to take.
  bool has_prioritized(std::uint32_t lane) const noexcept {
    return !lanes_[lane].prioritized.empty();
  }
  bool has_next(std::uint32_t lane) const noexcept {
    return lanes_[lane].next < lanes_[lane].added.size();
  }

  std::optional<std::uint32_t> take_prioritized(std::uint32_t lane = 0) {
    std::deque<std::uint32_t>& prioritized = lanes_[lane].prioritized;
    while (!prioritized.empty()) {
      const std::uint32_t index = prioritized.front();
      prioritized.pop_front();
      if (take(index)) return index;
    }
    return std::nullopt;
  }
  std::optional<std::uint32_t> take_next(std::uint32_t lane = 0) {
    lane_work& from = lanes_[lane];
    while (from.next < from.added.size()) {
      const std::uint32_t index = from.added[from.next++];
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

  struct lane_work {
    std::vector<std::uint32_t> added;
    std::size_t next = 0;  // Of these.
    std::deque<std::uint32_t> prioritized;
  };

  lane_work& lane_of(std::uint32_t index) {
    return lane_of_.empty() ? lanes_.front() : lanes_[lane_of_[index]];
  }

  std::vector<bool> taken_;
  std::vector<std::uint32_t> lane_of_;
  std::vector<lane_work> lanes_;
  std::uint32_t in_progress_ = 0;
};

}  // namespace ringload::inline v0::detail
