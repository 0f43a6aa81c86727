// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files of a version folder. The comments of ringload/delta.hpp describe the file names.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0::detail {

struct version_files {
  std::string full;
  std::string delta;
};

using version_folder = std::map<std::uint64_t, version_files>;

// Lists the versions of a folder. Ignores files with other names.
result<version_folder> read_version_folder(const std::string& path);

// The files that lead to a version: a full version, and the deltas in the order of application.
struct version_chain {
  std::string full;  // Empty if the chain begins with the loaded version.
  std::vector<std::string> deltas;
};

// Returns the shortest chain to a version of the folder `path`, from a full version or from the
// version `loaded`. Fails with errc::source_not_found if the folder lacks a file of the chain. The
// fault names the file.
result<version_chain> find_chain(const version_folder& folder, const std::string& path,
                                 std::uint64_t version,
                                 std::optional<std::uint64_t> loaded = std::nullopt);

}  // namespace ringload::inline v0::detail
