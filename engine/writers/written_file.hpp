// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file that is being written: open, with room for its bytes as far as they are known.

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"
#include "readers/direct_file.hpp"

namespace ringload::inline v0 {

struct written_file {
  std::string place;           // For errors: the name that it is to have.
  std::uint64_t bytes = 0;     // Allocated: the file's size.
  unique_fd buffered;          // For reading and writing.
  unique_fd direct;            // The same with O_DIRECT; empty: no direct writes.
  std::string direct_refusal;  // Why nothing more is written directly; else empty.
};

// Opens or makes the file at `path`.
result<unique_fd> open_for_writing(const std::filesystem::path& path, const std::string& place);
// The same file once more.
result<unique_fd> open_again(int fd, const std::string& place);

// Allocates `bytes` of the empty file, so that writes find their blocks and the file's size never
// changes. ENOSPC, with how much is missing, where there is no room. `path` is one that it has now.
result<written_file> begin_file(unique_fd file, const std::filesystem::path& path,
                                std::string place, std::uint64_t bytes, direct_files& direct);

// Makes room up to `end`, which is then the file's size.
result<void> allocate_up_to(written_file& file, std::uint64_t end);

// Whether the file system that `folder` is on has that much room for this user.
result<void> check_disk_room(const std::filesystem::path& folder, std::uint64_t bytes);

// The bytes, and the size, to the drive.
result<void> sync_file(const written_file& file);

}  // namespace ringload::inline v0
