// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files of one save. Until publish() gives the files their final names, the files are unnamed
// or have temporary names. A checkpoint folder is published as a whole. All functions block on the
// file system. The target may also be one object of a store.

#include <cstdint>
#include <filesystem>
#include <ringload/byte_source.hpp>
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
  byte_store* store = nullptr;  // The store of an object. Null for a path.
};

class save_files {
 public:
  save_files() = default;

  // Creates the files and allocates disk space for all their bytes. If `target` is a file, `files`
  // must have one element.
  static result<save_files> make(const save_target& target, std::span<const file_layout> files,
                                 direct_files& direct);
  // Begins to write the object `request.name` of target.store.
  static result<save_files> make_object(const save_target& target, const target_request& request);

  std::span<written_file> files() noexcept { return files_; }

  // Gives the files their final names. If `sync` is true, flushes the files to the drive first, and
  // the names afterwards. After a failure, the target is unchanged, unless only the flush of the
  // names has failed.
  result<void> publish(bool sync);
  const std::vector<std::string>& paths() const noexcept { return paths_; }

 private:
  atomic_entry entry_;
  std::vector<std::string> paths_;
  // Declared last, so that files are closed before entry_ removes the files.
  std::vector<written_file> files_;
};

}  // namespace ringload::inline v0::detail
