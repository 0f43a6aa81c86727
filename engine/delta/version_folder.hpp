// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files of a version folder, on a file system or in a store. The comments of ringload/delta.hpp
// describe the file names.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ringload/byte_source.hpp>
#include <ringload/extension.hpp>
#include <ringload/source.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

// The names of the files of one version. A name is empty if the folder has no such file.
struct version_files {
  std::string full;
  std::string delta;
};

class version_folder {
 public:
  // Lists the versions of a folder. Ignores files with other names. If `path` is not a local
  // folder, a store of `extensions` must recognise the path and list the folder.
  static result<version_folder> read(const std::string& path, std::span<const extension> extensions,
                                     const std::stop_token& stop);

  const std::map<std::uint64_t, version_files>& versions() const noexcept { return versions_; }
  // Returns the path of the file `name` in the folder. If `name` is empty, returns the path of the
  // folder.
  std::string path_of(const std::string& name) const;
  source source_of(const std::string& name) const;

 private:
  result<void> add(const std::string& name);
  result<void> set_name(std::string version_files::* kind, std::uint64_t version,
                        const std::string& name);
  result<void> add_weights(const std::string& name, std::uint64_t version);

  std::string path_;
  std::shared_ptr<byte_folder> store_;  // Null if the folder is on a file system.
  std::map<std::uint64_t, version_files> versions_;
};

// The names of the files that lead to a version: a full version, and the deltas in the order of
// application.
struct version_chain {
  std::string full;                 // Empty if the chain begins with the loaded version.
  std::vector<std::string> deltas;  // The last delta leads to the version.
};

// Returns the shortest chain to a version of the folder, from a full version or from the version
// `loaded`. Fails with errc::source_not_found if the folder lacks a file of the chain. The fault
// names the file.
result<version_chain> find_chain(const version_folder& folder, std::uint64_t version,
                                 std::optional<std::uint64_t> loaded = std::nullopt);

}  // namespace ringload::inline v0::detail
