// SPDX-License-Identifier: Apache-2.0
#pragma once

// The interface of a folder, on a file system or in a store.

#include <span>
#include <string>
#include <vector>

#include "base/fault.hpp"
#include "catalog/source_file.hpp"

namespace ringload::inline v0 {

// A folder with more files than this is no model.
inline constexpr std::size_t folder_names_max = 1'000'000;

class source_folder {
 public:
  virtual ~source_folder() = default;

  // `name` may have sub-folders. No file outside the folder is opened.
  virtual result<source_file> open_file(const std::string& name) const = 0;
  // The names of all entries of the folder, sorted, whether they can be opened or not.
  virtual result<std::vector<std::string>> names() const = 0;
  // The names of all files in it and in its sub-folders, sorted.
  virtual result<std::vector<std::string>> names_beneath() const = 0;
  // The path of a file in this folder, for messages and for the catalog.
  virtual std::string path_of(const std::string& name) const = 0;
  virtual std::string shown() const = 0;
  // Announces the files that the caller opens next.
  virtual void expect(std::span<const std::string>) const {}
};

}  // namespace ringload::inline v0
