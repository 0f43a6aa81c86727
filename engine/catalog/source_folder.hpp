// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of a folder on a file system or in a store.

#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "catalog/source_file.hpp"

namespace ringload::inline v0 {

// Maximum number of entries that names() or names_beneath() may find. A folder with more entries is
// refused.
inline constexpr std::size_t folder_names_max = 1'000'000;

class source_folder {
 public:
  virtual ~source_folder() = default;

  // `name` may be a path with sub-folders. A file outside of the folder is refused.
  virtual result<source_file> open_file(const std::string& name) const = 0;
  // Returns the sorted names of all entries of the folder. Includes entries that cannot be opened.
  virtual result<std::vector<std::string>> names() const = 0;
  // Returns the sorted names of all files in the folder and in its sub-folders.
  virtual result<std::vector<std::string>> names_beneath() const = 0;
  // Returns the path of a file in this folder, for messages and for the catalog.
  virtual std::string path_of(const std::string& name) const = 0;
  virtual std::string shown() const = 0;
  // Announces the files that the caller will open next, so that a store can open the files in
  // parallel.
  virtual void expect(std::span<const std::string>) const {}
};

}  // namespace ringload::inline v0
