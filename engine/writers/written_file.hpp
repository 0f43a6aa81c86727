// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file that is being written: open, with room for all of its bytes.

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"
#include "readers/direct_file.hpp"

namespace ringload::inline v0 {

struct written_file {
  std::string place;           // For errors: the name that it is to have.
  std::uint64_t bytes = 0;     // That it is to have.
  unique_fd buffered;          // For reading and writing.
  unique_fd direct;            // The same with O_DIRECT; empty: no direct writes.
  std::string direct_refusal;  // Why not; else empty.
};

// Opens or makes the file at `path` and allocates `bytes`, so that writes find their blocks and the
// file's size never changes. ENOSPC, with how much is missing, where there is no room.
result<written_file> open_to_write(const std::filesystem::path& path, std::string place,
                                   std::uint64_t bytes, direct_files& direct);

// Whether the file system that `folder` is on has that much room for this user.
result<void> check_disk_room(const std::filesystem::path& folder, std::uint64_t bytes);

// The bytes, and the size, to the drive.
result<void> sync_file(const written_file& file);

}  // namespace ringload::inline v0
