// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens a path beneath a root folder. Refuses a path that leaves the folder by `..` or a symlink.

#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

// Calls openat2 with RESOLVE_BENEATH. `root` is the descriptor of a folder. Follows relative
// symlinks that stay beneath the folder. Returns errc::path_outside_source if the path leaves the
// folder, and errc::source_not_found if the file does not exist.
result<unique_fd> openat_beneath(int root, const std::string& path, int flags);

// Like openat_beneath(), but without openat2. Used on kernels before 5.6, and in sandboxes that
// refuse openat2. Opens with O_PATH, then checks the location that /proc/self/fd reports. Also
// follows absolute symlinks that stay beneath the folder.
result<unique_fd> openat_beneath_by_location(int root, const std::string& path, int flags);

// Returns true if `path` itself is a symlink. The target of the symlink need not exist.
bool is_symlink_at(int root, const std::string& path) noexcept;

}  // namespace ringload::inline v0
