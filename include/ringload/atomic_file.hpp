// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file or folder that appears under its name only when it is whole, as those of `save_async` and
// `writer` do: for what a program writes beside a checkpoint.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ringload/export.hpp>
#include <string_view>

namespace ringload::inline v0 {

enum class entry_kind : std::uint8_t { file, folder };

class atomic_entry;

/// Its functions block on the file system, and throw `ringload::error`, in which the place is the
/// target. Until it is published a file has no name, where the file system can do that, and else
/// one like ".ringload-<process>-<n>" in the folder of its target; a folder has such a name.
class RINGLOAD_EXPORT atomic_file {
 public:
  /// Makes the empty file or folder. An existing `target` is `EEXIST`, unless it may be replaced: a
  /// regular file by a file; by a folder, one that holds nothing but files of a checkpoint.
  atomic_file(std::filesystem::path target, entry_kind kind, bool may_replace);
  atomic_file(atomic_file&& other) noexcept;
  atomic_file& operator=(atomic_file&& other) noexcept;
  /// Removes it, if it was not published.
  ~atomic_file();

  /// By which it can be opened until it is published.
  const std::filesystem::path& path() const noexcept;

  /// Appends to a file.
  void write(std::string_view text);

  /// Gives it its name. With `sync` it is flushed to the drive before, and its name after; not what
  /// is in the files of a folder.
  void publish(bool sync = true);

 private:
  std::unique_ptr<atomic_entry> entry_;
};

}  // namespace ringload::inline v0
