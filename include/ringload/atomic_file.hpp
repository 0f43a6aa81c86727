// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file or folder that appears under its name only when it is complete, like the output of
// `save_async` and `writer`. For files that a program writes next to a checkpoint.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ringload/export.hpp>
#include <string_view>

namespace ringload::inline v0 {

enum class entry_kind : std::uint8_t { file, folder };

class atomic_entry;

/// The functions block on the file system, and throw `ringload::error` with the target as its
/// place. Until it is published, a file has no name if the file system supports that. Otherwise the
/// file has a name such as ".ringload-<process>-<n>" in the folder of its target. A folder always
/// has such a name.
class RINGLOAD_EXPORT atomic_file {
 public:
  /// Creates the empty file or folder. An existing `target` is `EEXIST` unless `may_replace` is
  /// set. A regular file can be replaced by a file. A folder can be replaced by a folder if it
  /// contains only files of a checkpoint.
  atomic_file(std::filesystem::path target, entry_kind kind, bool may_replace);
  atomic_file(atomic_file&& source) noexcept;
  atomic_file& operator=(atomic_file&& source) noexcept;
  /// Removes the file or folder if it is not published.
  ~atomic_file();

  /// The path for opening the file or folder before it is published.
  const std::filesystem::path& path() const noexcept;

  /// Appends to a file.
  void write(std::string_view text);

  /// Publishes the file or folder under its name. With `sync`, it is flushed to the drive before,
  /// and its name is flushed afterwards. The contents of files in a folder are not flushed.
  void publish(bool sync = true);

 private:
  std::unique_ptr<atomic_entry> entry_;
};

}  // namespace ringload::inline v0
