// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file or a folder that appears under its name only when it is complete. Until then it has
// another name beside it, ".ringload-make-<process>-<n>", under which a crash may leave it.

#include <filesystem>

namespace ringload::tool {

enum class entry_kind { file, folder };

/// Throws `ringload::error`, in which the place is the target.
class unpublished {
 public:
  /// Makes the empty file or folder. What is at `target` already is an error, unless it may be
  /// replaced: a file by a file, and by a folder an empty one, or one with nothing in it but the
  /// files of a checkpoint.
  unpublished(std::filesystem::path target, entry_kind kind, bool may_replace);
  unpublished(const unpublished&) = delete;
  unpublished& operator=(const unpublished&) = delete;
  /// Removes it, if it was not published.
  ~unpublished();

  /// Where to write for now.
  const std::filesystem::path& path() const noexcept { return temporary_; }

  /// Gives it its name, and waits until that is on the disk.
  void publish();

 private:
  void check_target() const;
  void rename_to_target();

  std::filesystem::path target_;
  std::filesystem::path temporary_;  // Empty once published.
  entry_kind kind_;
  bool may_replace_;
};

}  // namespace ringload::tool
