// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a file or a folder atomically: it is made under a temporary name in the same folder,
// ".ringload-make-<process>-<n>", and renamed once it is complete. A crash leaves the temporary
// one.

#include <filesystem>
#include <string_view>

namespace ringload::tool {

enum class entry_kind { file, folder };

/// Throws `ringload::error`, in which the place is the target.
class unpublished {
 public:
  /// Makes the empty file or folder. An existing `target` is an error, unless it may be replaced: a
  /// file by a file; by a folder, an empty folder or one that holds only the files of a checkpoint.
  unpublished(std::filesystem::path target, entry_kind kind, bool may_replace);
  unpublished(const unpublished&) = delete;
  unpublished& operator=(const unpublished&) = delete;
  /// Removes it, if it was not published.
  ~unpublished();

  /// The temporary path, to write to.
  const std::filesystem::path& path() const noexcept { return temporary_; }

  /// Writes all the bytes of a file.
  void write(std::string_view text);

  /// Renames it to the target and syncs that to disk.
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
