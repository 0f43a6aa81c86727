// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks whole files of a Hugging Face cache. The name of a blob in the cache is its digest. A file
// of a snapshot is a symlink to blobs/<name>. The name is the SHA-256 of a large file, or the git
// blob hash of a small file: the SHA-1 of "blob <size>", a zero byte and the bytes.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ringload::tool {

struct whole_file {
  std::filesystem::path path;
  std::string expected;  // 40 or 64 hexadecimal digits. Empty if the name is not a digest.
  std::string found;     // Set after hashing.
  std::string problem;   // The reason if the file could not be hashed.
};

/// Returns `path`, with the digest from the name of the blob to which the symlink `path` leads.
/// Does not read the file.
whole_file describe_file(const std::filesystem::path& path);

/// Hashes the files that have an expected digest, with one thread for each processor. Calls
/// `report` in this thread, once for each file, when the file is hashed. An exception of `report`
/// ends the hashing. Throws `interrupted` after Ctrl-C.
void hash_files(std::vector<whole_file>& files,
                const std::function<void(const whole_file&)>& report);

}  // namespace ringload::tool
