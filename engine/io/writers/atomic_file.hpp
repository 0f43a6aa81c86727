// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file or a folder that appears under its name only when it is complete.
//
// Before that, a file has no name at all (O_TMPFILE), so that a killed process leaves nothing
// behind. A folder, or a file on a file system without O_TMPFILE, has the name
// ".ringload-<process>-<n>" in the folder of its target. The next process that
// writes to that folder removes what a killed process has left there.

#include <cstdint>
#include <filesystem>
#include <ringload/atomic_file.hpp>
#include <utility>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

// All functions block on the file system. Faults name the target.
class atomic_entry {
 public:
  atomic_entry() = default;
  // Creates the empty file or folder. Fails with EEXIST if `target` exists, unless `may_replace` is
  // set: then a file replaces a regular file, and a folder replaces a folder that contains only
  // files of a checkpoint.
  static result<atomic_entry> make(std::filesystem::path target, entry_kind kind, bool may_replace);

  atomic_entry(atomic_entry&& source) noexcept;
  atomic_entry& operator=(atomic_entry&& source) noexcept;
  // Removes the entry if it was not published.
  ~atomic_entry();

  const std::filesystem::path& target() const noexcept { return target_; }
  // The path for opening the entry until it is published. For a file without a name, the path of
  // its descriptor.
  const std::filesystem::path& path() const noexcept { return path_; }
  // A file is open for reading and writing. -1 for a folder.
  int fd() const noexcept { return fd_.get(); }

  // Gives the entry its name. With `sync`, the file, or the list of a folder's entries but not
  // their contents, is on the drive before the entry is named, and the name is on the drive on
  // return.
  result<void> publish(bool sync);

 private:
  atomic_entry(std::filesystem::path target, entry_kind kind, bool may_replace)
      : target_(std::move(target)), kind_(kind), may_replace_(may_replace) {}

  result<void> check_target() const;
  bool make_unnamed();
  result<void> take_temporary_name();
  result<void> link_to_target();
  result<void> rename_to_target();
  void remove() noexcept;
  fault refused(int error_number, std::string cause = {}) const;

  std::filesystem::path target_;
  std::filesystem::path path_;  // Empty: not created, or published.
  unique_fd fd_;
  unique_fd lock_;  // The lock of a folder, see leftovers.hpp.
  entry_kind kind_ = entry_kind::file;
  bool may_replace_ = false;
  bool has_name_ = false;  // `path_` is a temporary name.
};

}  // namespace ringload::inline v0
