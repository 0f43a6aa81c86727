// SPDX-License-Identifier: Apache-2.0
#pragma once

// An open file that a save or a writer writes. Disk space is allocated before the writes, so that
// direct writes do not wait for each other. An object of a store is a written file too, without
// descriptors.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ringload/byte_source.hpp>
#include <string>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"
#include "io/direct_file.hpp"

namespace ringload::inline v0 {

struct written_file {
  std::string place;        // The final name, for errors.
  std::uint64_t bytes = 0;  // The allocated size of the file.
  unique_fd buffered;       // Open for reading and writing.
  unique_fd direct;         // The same file with O_DIRECT. Empty if direct writes are not possible.
  // The reason why direct writes are not used, or are no longer used. Empty if direct writes are
  // used.
  std::string direct_refusal;
  std::shared_ptr<byte_target> object;  // Written instead of a file. Null for a file.
};

result<unique_fd> open_for_writing(const std::filesystem::path& path, const std::string& place);
// Duplicates the descriptor, so that the two descriptors can be closed separately.
result<unique_fd> open_again(int fd, const std::string& place);

// Allocates `bytes` bytes for the empty file, and opens the file with O_DIRECT too, if possible.
// `bytes` is 0 if the size is not known yet. Returns ENOSPC if space is short. `path` is used only
// if /proc is not mounted, and must then lead to the file.
result<written_file> begin_file(unique_fd file, const std::filesystem::path& path,
                                std::string place, std::uint64_t bytes, direct_files& direct);

// Begins to write an object of a store. Blocks on the store.
result<written_file> begin_object(byte_store& store, const target_request& request,
                                  std::string place);
// Makes the object visible. Blocks on the store.
result<void> publish_object(written_file& file);

// Allocates bytes up to `end`, which becomes the file size. Does nothing if the file is large
// enough already, or if `file` is an object. After a failure, the file size is `file.bytes`. The
// file must have no bytes after `file.bytes`.
result<void> allocate_up_to(written_file& file, std::uint64_t end);

// Returns ENOSPC if the file system of `folder` has fewer than `bytes` free bytes for this user.
result<void> check_disk_room(const std::filesystem::path& folder, std::uint64_t bytes);

result<void> sync_file(const written_file& file);

}  // namespace ringload::inline v0
