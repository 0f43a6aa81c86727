// SPDX-License-Identifier: Apache-2.0
#pragma once

// The drives of the files of one load. Each drive is a lane: the reads of a lane are taken in
// order, independently of other lanes. So a drive without a free worker does not block the reads
// from other drives. Engine thread only.

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
  // `reads`: true if the load has reads. A load without reads does not count as a load of the
  // drives.
  void begin(std::span<const open_file> files, bool reads, drives& all_drives) {
    drives_ = &all_drives;
    for (const open_file& file : files) {
      drive* const file_drive =
          file.drive == open_file::no_drive ? nullptr : &all_drives.find_or_add(file.drive);
      const auto lane = std::ranges::find(lanes_, file_drive);
      lane_of_file_.push_back(static_cast<std::uint32_t>(lane - lanes_.begin()));
      if (lane == lanes_.end()) lanes_.push_back(file_drive);
    }
    counted_ = reads;
    for (drive* lane_drive : lanes_) {
      if (reads && lane_drive != nullptr) all_drives.begin_load(*lane_drive);
    }
  }
  // Later calls do nothing. Returns true if other loads may now use more workers.
  bool end() noexcept {
    if (!std::exchange(counted_, false)) return false;
    const bool several = drives_->several();
    for (drive* lane_drive : lanes_) {
      if (lane_drive != nullptr) drives_->end_load(*lane_drive);
    }
    return several;
  }

  std::uint32_t lanes() const noexcept {
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(lanes_.size()));
  }
  std::uint32_t lane_of(std::uint32_t file) const noexcept { return lane_of_file_[file]; }
  // Null: the file is memory.
  drive* drive_of(std::uint32_t file) const noexcept { return lanes_[lane_of_file_[file]]; }

  // Takes the next read of a lane with a free worker. `has(lane)` returns whether the lane may have
  // a read. `take_from(lane)` takes the read.
  template <class Has, class Take>
  work::offer take(const Has& has, const Take& take_from) const {
    work::offer empty_offer;
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      drive* const lane_drive = lanes_[lane];
      if (lane_drive != nullptr && !drives_->has_worker_for(*lane_drive)) {
        empty_offer.later = empty_offer.later || has(lane);
        continue;
      }
      const std::optional<std::uint32_t> read = take_from(lane);
      if (!read) continue;
      if (lane_drive != nullptr) ++lane_drive->workers;
      return {read};
    }
    return empty_offer;
  }
  // A taken read has ended. Returns true if another load may have waited for the worker.
  bool leave(std::uint32_t file) const noexcept {
    drive* const file_drive = drive_of(file);
    if (file_drive != nullptr) --file_drive->workers;
    return file_drive != nullptr && drives_->several();
  }

 private:
  drives* drives_ = nullptr;
  std::vector<drive*> lanes_;
  std::vector<std::uint32_t> lane_of_file_;
  bool counted_ = false;
};

}  // namespace ringload::inline v0::detail
