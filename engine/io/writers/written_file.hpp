// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file that is being written: open, with space allocated for the bytes that are known so far.

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "io/direct_file.hpp"

namespace ringload::inline v0 {

struct written_file {
  std::string place;           // The final name, for errors.
  std::uint64_t bytes = 0;     // The allocated size of the file.
  unique_fd buffered;          // For reading and writing.
  unique_fd direct;            // The same file with O_DIRECT; empty: no direct writes.
  std::string direct_refusal;  // Why direct writes have stopped; otherwise empty.
};

// Opens or creates the file at `path`.
result<unique_fd> open_for_writing(const std::filesystem::path& path, const std::string& place);
// Duplicates the descriptor.
result<unique_fd> open_again(int fd, const std::string& place);

// Allocates `bytes` of the empty file, so that writes find their blocks allocated and the file size
// never changes. Fails with ENOSPC if there is not enough space. `path` must be a current path of
// the file.
result<written_file> begin_file(unique_fd file, const std::filesystem::path& path,
                                std::string place, std::uint64_t bytes, direct_files& direct);

// Allocates up to `end`, which becomes the file size.
result<void> allocate_up_to(written_file& file, std::uint64_t end);

// Fails if the file system of `folder` has less free space for this user.
result<void> check_disk_room(const std::filesystem::path& folder, std::uint64_t bytes);

// Flushes the bytes and the size to the drive.
result<void> sync_file(const written_file& file);

}  // namespace ringload::inline v0
