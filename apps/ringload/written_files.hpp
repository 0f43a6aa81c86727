// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks the paths of the files that a command will write.

#include <string>
#include <string_view>
#include <vector>

#include "requests.hpp"

namespace ringload::tool {

struct written_file {
  std::string_view option;  // For the error text, such as "--trace".
  std::string_view path;    // Empty if the option is not set.
};

/// Throws `ringload::error` if a written file would replace a file of the checkpoint, another
/// written file, or the checksum list that the command reads. If one of the paths exists, reads the
/// catalog of the checkpoint.
void check_written_files(const source_request& from, const std::vector<written_file>& files,
                         const std::string& checksum_list = {});

}  // namespace ringload::tool
