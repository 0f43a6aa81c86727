// SPDX-License-Identifier: Apache-2.0
#pragma once

// The unpublished files of one save. publish() gives all files their names, or no file. A
// checkpoint folder is one unpublished folder. All functions block on the file system.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "io/direct_file.hpp"
#include "io/writers/atomic_file.hpp"
#include "io/writers/written_file.hpp"
#include "save/file_layout.hpp"

namespace ringload::inline v0::detail {

struct save_target {
  std::filesystem::path path;
  entry_kind kind = entry_kind::file;
  bool may_replace = true;
};

class save_files {
 public:
  save_files() = default;

  // Creates the files and allocates all their bytes. A target of kind `file` takes one layout.
  static result<save_files> make(const save_target& target, std::span<const file_layout> files,
                                 direct_files& direct);

  std::span<written_file> files() noexcept { return files_; }

  // Flushes the files to the drive if `sync` is set, then gives them their names. On failure the
  // target is unchanged.
  result<void> publish(bool sync);
  // The paths of the published files.
  const std::vector<std::string>& paths() const noexcept { return paths_; }

 private:
  atomic_entry entry_;
  std::vector<std::string> paths_;
  std::vector<written_file> files_;  // Closed before the entry is removed.
};

}  // namespace ringload::inline v0::detail
