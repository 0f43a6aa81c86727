// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens a path relative to a root folder and refuses to leave that folder, by `..` or by symlink.

#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0 {

// openat2 with RESOLVE_BENEATH. `root` is the descriptor of a folder; relative symlinks that stay
// beneath it are followed. Fails with path_outside_source, or source_not_found.
result<unique_fd> openat_beneath(int root, const std::string& path, int flags);

// The same without openat2, for kernels before 5.6 and sandboxes that refuse it: opens with O_PATH,
// then checks where /proc/self/fd says that led. Also follows absolute symlinks that stay beneath.
result<unique_fd> openat_beneath_by_location(int root, const std::string& path, int flags);

// Whether the path itself is a symlink, dangling or not.
bool is_symlink_at(int root, const std::string& path) noexcept;

}  // namespace ringload::inline v0
