// SPDX-License-Identifier: Apache-2.0
#pragma once

// How many descriptors this process has open.

#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>

namespace ringload::testing {

// Without pipes. The library opens none, but a sanitizer asks another program for the names of
// functions through two of them, once there is something to name.
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
