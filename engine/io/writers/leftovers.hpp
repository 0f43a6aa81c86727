// SPDX-License-Identifier: Apache-2.0
#pragma once

// Removes the temporary files and folders that killed processes have left:
// ".ringload-<process>-<n>". Used by atomic_file.
//
// A process that creates a temporary entry locks the entry (flock) until the entry has its final
// name. If an entry is not locked and its process has ended, the entry can be removed.

#include <filesystem>
#include <string>

namespace ringload::inline v0 {

// Returns ".ringload-P-N", where P is the ID of this process and N is `number`.
std::string temporary_name(int number);

// Locks an open file or folder. If the file system has no locks, does nothing, and
// remove_leftovers() removes nothing from that file system.
void lock_temporary(int fd) noexcept;
void unlock_temporary(int fd) noexcept;

// Removes the temporary entries in `folder` that processes of this user have left. Removes only
// entries whose process has ended. Ignores failures.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace ringload::inline v0
