// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files of one save, until they are published: under temporary names, all or none. A checkpoint
// that is a folder is one unpublished folder. Its functions block on the file system.

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

  // Makes them, with room for all their bytes. Of a target that is a file there is one.
  static result<save_files> make(const save_target& to, std::span<const file_layout> files,
                                 direct_files& direct);

  std::span<written_file> files() noexcept { return files_; }

  // To the drive if `sync`, and then under their names. On failure what was there before is there.
  result<void> publish(bool sync);
  // That they have once they are published.
  const std::vector<std::string>& paths() const noexcept { return paths_; }

 private:
  atomic_entry entry_;
  std::vector<std::string> paths_;
  std::vector<written_file> files_;  // Closed before the entry is removed.
};

}  // namespace ringload::inline v0::detail
