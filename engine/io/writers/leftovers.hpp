// SPDX-License-Identifier: Apache-2.0
#pragma once

// Removes the temporary files and folders of killed processes: ".ringload-<process>-<n>".
//
// A process that creates a temporary entry holds a lock on it (flock) while it has that name. An
// entry without a lock can be removed if its process has ended.

#include <filesystem>
#include <string>

namespace ringload::inline v0 {

// ".ringload-812-0" for this process.
std::string temporary_name(int number);

// Locks an open file or folder. Ignores file systems without locks: remove_leftovers() removes
// nothing from them.
void lock_temporary(int fd) noexcept;
void unlock_temporary(int fd) noexcept;

// Removes the temporary entries in `folder` of this user's ended processes. Ignores failures.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace ringload::inline v0
