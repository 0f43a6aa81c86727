// SPDX-License-Identifier: Apache-2.0
#pragma once

// The drives that the files of one load lie on. They are the lanes in which its reads are taken:
// where one has no worker to spare, the reads of the others go on. Engine thread only.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "catalog/opened_checkpoint.hpp"
#include "runtime/drives.hpp"
#include "runtime/work.hpp"

namespace ringload::inline v0::detail {

class load_drives {
 public:
  // `reads`: whether the load has any; else the drives do not count it.
  void begin(std::span<const open_file> files, bool reads, drives& among) {
    among_ = &among;
    for (const open_file& file : files) {
      drive* const on = file.drive == open_file::no_drive ? nullptr : &among.of(file.drive);
      const auto at = std::ranges::find(lanes_, on);
      lane_of_file_.push_back(static_cast<std::uint32_t>(at - lanes_.begin()));
      if (at == lanes_.end()) lanes_.push_back(on);
    }
    counted_ = reads;
    for (drive* each : lanes_) {
      if (reads && each != nullptr) among.begin_load(*each);
    }
  }
  // Once. True if other loads may have more workers now.
  bool end() noexcept {
    if (!std::exchange(counted_, false)) return false;
    const bool several = among_->several();
    for (drive* each : lanes_) {
      if (each != nullptr) among_->end_load(*each);
    }
    return several;
  }

  std::uint32_t lanes() const noexcept {
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(lanes_.size()));
  }
  std::uint32_t lane_of(std::uint32_t file) const noexcept { return lane_of_file_[file]; }
  // Null: it is memory.
  drive* of(std::uint32_t file) const noexcept { return lanes_[lane_of_file_[file]]; }

  // The next read, of a lane that has a worker for it. `has(lane)` says whether there may be one,
  // `take_from(lane)` takes it.
  template <class Has, class Take>
  work::offer take(const Has& has, const Take& take_from) const {
    work::offer none;
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      drive* const from = lanes_[lane];
      if (from != nullptr && !among_->has_worker_for(*from)) {
        none.later = none.later || has(lane);
        continue;
      }
      const std::optional<std::uint32_t> read = take_from(lane);
      if (!read) continue;
      if (from != nullptr) ++from->workers;
      return {read};
    }
    return none;
  }
  // A read that was taken has ended. True if another load may have waited for its worker.
  bool leave(std::uint32_t file) const noexcept {
    drive* const on = of(file);
    if (on != nullptr) --on->workers;
    return on != nullptr && among_->several();
  }

 private:
  drives* among_ = nullptr;
  std::vector<drive*> lanes_;
  std::vector<std::uint32_t> lane_of_file_;
  bool counted_ = false;
};

}  // namespace ringload::inline v0::detail
