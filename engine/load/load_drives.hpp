// SPDX-License-Identifier: Apache-2.0
#pragma once

// The drives that contain the files of one load. Each drive has a list of reads, which are taken in
// order. If one drive has no free worker (see worker.hpp), the reads from the other drives
// continue. Engine thread only.

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
  // Finds the drives of `files`. Must be called once. `reads` must be true if the load has any
  // reads. A load without reads does not count as a user of its drives.
  void begin(std::span<const open_file> files, bool reads, drives& all_drives) {
    drives_ = &all_drives;
    for (const open_file& file : files) {
      drive* const file_drive = file.drive == open_file::no_drive
                                    ? nullptr
                                    : &all_drives.find_or_add(file.drive, file.is_distant);
      const auto position = std::ranges::find(used_drives_, file_drive);
      drive_of_file_.push_back(static_cast<std::uint32_t>(position - used_drives_.begin()));
      if (position == used_drives_.end()) used_drives_.push_back(file_drive);
    }
    counted_ = reads;
    for (drive* used_drive : used_drives_) {
      if (reads && used_drive != nullptr) all_drives.begin_load(*used_drive);
    }
  }
  // Must be called at the end of the load. Returns true if other loads can now use more workers. A
  // second call does nothing.
  bool end() noexcept {
    if (!std::exchange(counted_, false)) return false;
    const bool several = drives_->has_several();
    for (drive* used_drive : used_drives_) {
      if (used_drive != nullptr) drives_->end_load(*used_drive);
    }
    return several;
  }

  std::uint32_t count() const noexcept {
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(used_drives_.size()));
  }
  std::uint32_t index_of(std::uint32_t file) const noexcept { return drive_of_file_[file]; }
  // Returns null if the bytes of the file are in memory.
  drive* drive_of(std::uint32_t file) const noexcept { return used_drives_[drive_of_file_[file]]; }

  // Takes the next read from a drive that has a free worker. `has(index)` must return true if
  // drive number `index` may have further reads. `take_from(index)` must take the next read from
  // this drive.
  template <class Has, class Take>
  work::offer take_step(const Has& has, const Take& take_from) const {
    work::offer empty_offer;
    for (std::uint32_t index = 0; index < used_drives_.size(); ++index) {
      drive* const used_drive = used_drives_[index];
      if (used_drive != nullptr && !drives_->has_worker_for(*used_drive)) {
        empty_offer.has_waiting_step = empty_offer.has_waiting_step || has(index);
        continue;
      }
      const std::optional<std::uint32_t> read = take_from(index);
      if (!read) continue;
      if (used_drive != nullptr) ++used_drive->workers;
      return {read};
    }
    return empty_offer;
  }
  // Must be called when a taken read has ended. Returns true if another load may be waiting for the
  // worker.
  bool leave(std::uint32_t file) const noexcept {
    drive* const file_drive = drive_of(file);
    if (file_drive != nullptr) --file_drive->workers;
    return file_drive != nullptr && drives_->has_several();
  }

 private:
  drives* drives_ = nullptr;
  std::vector<drive*> used_drives_;
  std::vector<std::uint32_t> drive_of_file_;
  bool counted_ = false;
};

}  // namespace ringload::inline v0::detail
