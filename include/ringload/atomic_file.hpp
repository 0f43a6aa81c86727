// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file or a folder that becomes visible at its path only when the contents are complete.
// `save_async` and `writer` publish their outputs in the same way. Use this class for additional
// files of a checkpoint.

#include <cstdint>
#include <memory>
#include <ringload/detail/path_object.hpp>
#include <ringload/export.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0 {

/// The kind of an atomic_file.
enum class entry_kind : std::uint8_t { file, folder };

class atomic_entry;

/// Creates a file or a folder that is not visible at the target path yet. publish() makes the
/// complete file or folder visible at this path. All functions may block during file system
/// operations. If a function fails, the function throws a `ringload::error` whose `place()` is the
/// target path.
///
/// Before publication, a folder has a temporary name such as ".ringload-<process>-<n>", in the
/// parent folder of the target. A file has a temporary name only during publish(), or if the system
/// does not support unnamed files (O_TMPFILE).
class RINGLOAD_EXPORT atomic_file {
 public:
  /// Creates an empty file or folder, according to `kind`. If `target` exists and `may_replace` is
  /// false, fails with `EEXIST`. A file can replace only a regular file, or a symlink to a regular
  /// file. A folder can replace only a folder that contains nothing except the files of a
  /// checkpoint.
  atomic_file(std::string_view target, entry_kind kind, bool may_replace);
  /// Creates an empty file or folder whose target is a `std::filesystem::path`.
  template <detail::path_object Path>
  atomic_file(const Path& target, entry_kind kind, bool may_replace)
      : atomic_file(std::string_view(target.native()), kind, may_replace) {}
  /// Moves the file or folder. Afterwards `source` may only be assigned to or destroyed.
  atomic_file(atomic_file&& source) noexcept;
  /// Removes the file or folder of this object, unless publish() has succeeded. Then moves the file
  /// or folder of `source` into this object.
  atomic_file& operator=(atomic_file&& source) noexcept;
  /// Removes the file or the folder, unless publish() has succeeded.
  ~atomic_file();

  /// Returns a path at which the file or the folder can be opened before publication.
  const std::string& path() const noexcept;

  /// Appends `text` to the file.
  void write(std::string_view text);

  /// Makes the file or the folder visible at the target path. If `sync` is true, publish() flushes
  /// the file or the folder to the drive before publication, and flushes its name afterwards.
  /// publish() does not flush the contents of the files in a folder.
  void publish(bool sync = true);

 private:
  std::unique_ptr<atomic_entry> entry_;
};

}  // namespace ringload::inline v0
