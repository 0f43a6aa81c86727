// SPDX-License-Identifier: Apache-2.0
#pragma once

// Opens what a path from inside a model names, and nothing outside of one root folder: whatever
// `..` and symlinks the path meets on its way.

#include <string>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"

namespace ringload::inline v0 {

// `root` is the descriptor of a folder. Symlinks are followed as long as they are relative and stay
// beneath it; path_outside_source otherwise, and source_not_found where nothing is there.
result<unique_fd> open_beneath(int root, const std::string& path, int flags);

// The same without openat2, for kernels before 5.6 and sandboxes that refuse it: the path is
// resolved without opening it for reading, then the kernel is asked where it led. It also accepts
// absolute symlinks that lead beneath the root. Needs /proc.
result<unique_fd> open_beneath_by_location(int root, const std::string& path, int flags);

// Whether the path's last part stands there as a symlink, wherever that leads.
bool is_symlink_at(int root, const std::string& path) noexcept;

}  // namespace ringload::inline v0
