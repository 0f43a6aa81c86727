// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file or a folder that appears under its name only when it is whole. It is made under a
// temporary name in the same folder, ".ringload-save-<process>-<n>", and renamed at the end. A
// process that is killed leaves the temporary one behind, and what was there before untouched.

#include <filesystem>
#include <utility>

#include "core/fault.hpp"

namespace ringload::inline v0 {

enum class entry_kind : std::uint8_t { file, folder };

// Its functions block on the file system. Faults name the target.
class unpublished {
 public:
  unpublished() = default;
  // Makes the empty file or folder. An existing `target` is EEXIST, unless it may be replaced: a
  // regular file by a file; by a folder, one that holds nothing but files of a checkpoint.
  static result<unpublished> make(std::filesystem::path target, entry_kind kind, bool may_replace);

  unpublished(unpublished&& other) noexcept;
  unpublished& operator=(unpublished&& other) noexcept;
  // Removes it, if it was not published.
  ~unpublished();

  const std::filesystem::path& target() const noexcept { return target_; }
  // The temporary path, to write to.
  const std::filesystem::path& path() const noexcept { return temporary_; }

  // Renames it to the target; `sync`: and has the folder's entry on the drive when it returns. What
  // is in the file itself must be there already.
  result<void> publish(bool sync);

 private:
  unpublished(std::filesystem::path target, entry_kind kind, bool may_replace)
      : target_(std::move(target)), kind_(kind), may_replace_(may_replace) {}

  result<void> check_target() const;
  result<void> rename_to_target();
  void remove() noexcept;
  fault refused(int error_number, std::string cause = {}) const;

  std::filesystem::path target_;
  std::filesystem::path temporary_;  // Empty: there is none, or it is published.
  entry_kind kind_ = entry_kind::file;
  bool may_replace_ = false;
};

}  // namespace ringload::inline v0
