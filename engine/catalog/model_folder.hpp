// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder of the file system that contains a model. The content of the folder is not trusted. An
// index in the folder may name other files, but only files beneath the root can be opened. The root
// of an ordinary folder is the folder itself. A snapshot in the Hugging Face cache consists of
// symlinks to files in `blobs`, so the root of a snapshot is the folder of the repository:
//
//   models--owner--name/                        root
//     blobs/2f1e...
//     snapshots/<commit>/                       the folder
//       model.safetensors -> ../../blobs/2f1e...

#include <ringload/export.hpp>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "catalog/source_folder.hpp"

namespace ringload::inline v0 {

class RINGLOAD_EXPORT model_folder final : public source_folder {
 public:
  // Opens any folder by its path. Recognises a snapshot of the cache by its path.
  static result<model_folder> open(const std::string& path);

  // `inside` is the path of the folder relative to the root. `inside` is empty or ends with '/'.
  // `shown` is the name of the folder in messages.
  static result<model_folder> open_rooted(const std::string& root, std::string inside,
                                          std::string shown);

  result<source_file> open_file(const std::string& name) const override;
  // Returns the first bytes of a text file, at most `bytes_max` bytes.
  result<std::string> read_text(const std::string& name, std::size_t bytes_max) const;
  result<std::vector<std::string>> names() const override;
  // Returns the names of all files in the folder and its sub-folders. Does not follow symlinks to
  // folders. Omits hidden folders (".git").
  result<std::vector<std::string>> names_beneath() const override;

  std::string path_of(const std::string& name) const override;
  std::string shown() const override { return shown_; }

 private:
  // Paths relative to the folder.
  struct entries {
    std::vector<std::string> files;  // Entries that are not folders.
    std::vector<std::string> folders;
  };

  model_folder(unique_fd root, std::string inside, std::string shown)
      : root_(std::move(root)), inside_(std::move(inside)), shown_(std::move(shown)) {}

  result<void> list(const std::string& folder, entries& into) const;

  unique_fd root_;
  std::string inside_;
  std::string shown_;
};

// Returns true if the text has 40 lower-case hexadecimal digits.
RINGLOAD_EXPORT bool is_commit(std::string_view text) noexcept;

}  // namespace ringload::inline v0
