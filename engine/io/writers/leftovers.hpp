// SPDX-License-Identifier: Apache-2.0
#pragma once

// Temporary files and folders that killed processes have left: ".ringload-<process>-<n>".
//
// Whoever makes such an entry holds a lock on it (flock) as long as it has that name. So an entry
// without a lock, of a process that does not exist, belongs to nobody.

#include <filesystem>
#include <string>

namespace ringload::inline v0 {

// ".ringload-812-0" for this process.
std::string temporary_name(int number);

// Locks an open file or folder. A file system that has no locks is ignored: nothing is then removed
// from it either.
void lock_temporary(int fd) noexcept;
void unlock_temporary(int fd) noexcept;

// Removes what is left in that folder by processes of this user that have ended. What cannot be
// removed stays.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace ringload::inline v0
