// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file or a folder that receives its final name only when its contents are complete. Used by
// saves and by the public classes `writer` and `atomic_file`.
//
// A file that is being written has no name (O_TMPFILE). If the process is killed, no file remains.
// A folder, and a file on a file system without O_TMPFILE, has a temporary name in the parent
// folder of the target: ".ringload-<process>-<n>". If the process is killed, the next process that
// writes to the folder removes the temporary entry.

#include <cstdint>
#include <filesystem>
#include <ringload/atomic_file.hpp>
#include <utility>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

// All functions may block on the file system. Faults name the target.
class atomic_entry {
 public:
  atomic_entry() = default;
  // Creates the empty file or folder. Returns EEXIST if `target` exists, unless `may_replace` is
  // set. With `may_replace`, a file may replace only a regular file, and a folder may replace only
  // a folder that contains only files of a checkpoint.
  static result<atomic_entry> make(std::filesystem::path target, entry_kind kind, bool may_replace);

  atomic_entry(atomic_entry&& source) noexcept;
  atomic_entry& operator=(atomic_entry&& source) noexcept;
  // Removes the entry if it was not published.
  ~atomic_entry();

  const std::filesystem::path& target() const noexcept { return target_; }
  // Returns the path for opening the entry before it is published. For a file without a name, this
  // is the path of its descriptor in /proc.
  const std::filesystem::path& path() const noexcept { return path_; }
  // Returns the descriptor of a file, open for reading and writing. Returns -1 for a folder.
  int fd() const noexcept { return fd_.get(); }

  // Gives the entry its final name. If `sync` is true, flushes the contents of a file before the
  // file gets the name, and afterwards flushes the folder that contains the name. If the entry is a
  // folder, flushes only the list of its entries, so the caller must flush the files in the folder.
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
  std::filesystem::path path_;  // Empty if the entry was not created, or is published.
  unique_fd fd_;
  unique_fd lock_;  // Keeps a folder locked. See leftovers.hpp.
  entry_kind kind_ = entry_kind::file;
  bool may_replace_ = false;
  bool has_name_ = false;  // True if `path_` is a temporary name.
};

}  // namespace ringload::inline v0
