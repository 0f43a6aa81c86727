// SPDX-License-Identifier: Apache-2.0
#pragma once

// The number of open descriptors of this process.

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace ringload::testing {

// Does not count pipes. The library opens no pipe, but a sanitizer uses two pipes to another
// program that finds the names of functions.
inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string what = std::filesystem::read_symlink(one.path(), gone).string();
    if (!what.starts_with("pipe:")) ++count;
  }
  return count;
}

}  // namespace ringload::testing
