// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks the paths of the files that a command writes beside its result, before it writes them.

#include <string>
#include <string_view>
#include <vector>

namespace ringload::tool {

struct written_file {
  std::string_view option;  // For the error text, such as "--trace".
  std::string_view path;    // Empty if the option is not set.
};

/// Throws `ringload::error` if writing a file would replace a file that the command reads, or
/// another written file. `sources` are files, folders, or names that are no local path.
void check_written_files(const std::vector<std::string>& sources,
                         const std::vector<written_file>& files);

}  // namespace ringload::tool
