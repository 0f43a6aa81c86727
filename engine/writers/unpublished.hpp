// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file or a folder that appears under its name only when it is whole.
//
// Until then a file has no name at all (O_TMPFILE), so that a process that is killed leaves
// nothing. A folder, and a file where the file system cannot do that, has the name
// ".ringload-<process>-<n>" in the folder of its target. Whoever writes to that folder next removes
// what a killed process has left there.

#include <cstdint>
#include <filesystem>
#include <ringload/unpublished.hpp>
#include <utility>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"

namespace ringload::inline v0 {

// Its functions block on the file system. Faults name the target.
class unpublished_entry {
 public:
  unpublished_entry() = default;
  // Makes the empty file or folder. An existing `target` is EEXIST, unless it may be replaced: a
  // regular file by a file; by a folder, one that holds nothing but files of a checkpoint.
  static result<unpublished_entry> make(std::filesystem::path target, entry_kind kind,
                                        bool may_replace);

  unpublished_entry(unpublished_entry&& other) noexcept;
  unpublished_entry& operator=(unpublished_entry&& other) noexcept;
  // Removes it, if it was not published.
  ~unpublished_entry();

  const std::filesystem::path& target() const noexcept { return target_; }
  // By which it can be opened until it is published: of a file without a name, that of its
  // descriptor.
  const std::filesystem::path& path() const noexcept { return path_; }
  // Of a file: open for reading and writing. -1 for a folder.
  int fd() const noexcept { return fd_.get(); }

  // Gives it its name. With `sync` the file, or the folder's entries but not what is in them, are
  // on the drive before, and the name is when it returns.
  result<void> publish(bool sync);

 private:
  unpublished_entry(std::filesystem::path target, entry_kind kind, bool may_replace)
      : target_(std::move(target)), kind_(kind), may_replace_(may_replace) {}

  result<void> check_target() const;
  bool make_unnamed();
  result<void> take_temporary_name();
  result<void> link_to_target();
  result<void> rename_to_target();
  void remove() noexcept;
  fault refused(int error_number, std::string cause = {}) const;

  std::filesystem::path target_;
  std::filesystem::path path_;  // Empty: there is none, or it is published.
  unique_fd fd_;
  unique_fd lock_;  // Of a folder: see leftovers.hpp.
  entry_kind kind_ = entry_kind::file;
  bool may_replace_ = false;
  bool has_name_ = false;  // The path is a temporary one.
};

}  // namespace ringload::inline v0
