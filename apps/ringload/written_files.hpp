// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks the paths of the files that a command writes beside its result, before it writes them.

#include <string>
#include <string_view>
#include <vector>

#include "requests.hpp"

namespace ringload::tool {

struct written_file {
  std::string_view option;  // For the error text, such as "--trace".
  std::string_view path;    // Empty if the option is not set.
};

/// Throws `ringload::error` if writing a file would replace a file of the checkpoint, another
/// written file, or the checksum list that the command reads. Reads the checkpoint's catalog if one
/// of the written files exists.
void check_written_files(const source_request& from, const std::vector<written_file>& files,
                         const std::string& checksum_list = {});

}  // namespace ringload::tool
