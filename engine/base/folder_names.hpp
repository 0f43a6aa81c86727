// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lists a folder without std::filesystem. The iterators of std::filesystem end the process if no
// memory is left.

#include <filesystem>
#include <string>
#include <vector>

#include "base/fault.hpp"

namespace ringload::inline v0 {

// Returns the names in a folder, without "." and "..", in the order of the file system.
result<std::vector<std::string>> folder_names(int folder_fd);
result<std::vector<std::string>> folder_names(const std::filesystem::path& folder);

}  // namespace ringload::inline v0
