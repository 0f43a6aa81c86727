// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder that holds a model. Its content is untrusted: names from inside it open only files
// beneath its root. The root of an ordinary folder is the folder itself. The root of a snapshot in
// the Hugging Face cache is the repository's folder, since a snapshot is symlinks into `blobs`:
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
  // Any folder, by path; a snapshot of the cache is recognised by its path.
  static result<model_folder> open(const std::string& path);

  // `inside` is the folder's path from the root: empty, or ending with '/'. `shown` is the folder's
  // name in messages.
  static result<model_folder> open_rooted(const std::string& root, std::string inside,
                                          std::string shown);

  result<source_file> open_file(const std::string& name) const override;
  // The content of a required text file of at most `bytes_max` bytes.
  result<std::string> read_text(const std::string& name, std::size_t bytes_max) const;
  result<std::vector<std::string>> names() const override;
  // Symlinks to folders are not followed, and folders that are hidden (".git") are left out.
  result<std::vector<std::string>> names_beneath() const override;

  std::string path_of(const std::string& name) const override;
  std::string shown() const override { return shown_; }

 private:
  // Names, each with the path from the folder.
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

// Whether the text is 40 lower-case hexadecimal digits.
RINGLOAD_EXPORT bool is_commit(std::string_view text) noexcept;

}  // namespace ringload::inline v0
