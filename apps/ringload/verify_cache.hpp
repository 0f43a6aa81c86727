// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks whole files of a Hugging Face cache, whose blob names are their digests. A file of a
// snapshot is a link to blobs/<name>; the name is the SHA-256 of a large file, and the git blob
// hash of a small one: the SHA-1 of "blob <size>", a zero byte and the bytes.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ringload::tool {

struct whole_file {
  std::filesystem::path path;
  std::string expected;  // 40 or 64 hexadecimal digits; empty: its name says nothing.
  std::string found;     // Once it has been hashed.
  std::string problem;   // Why it could not be.
};

/// `path` with the digest that its blob's name is. Reads links, not bytes.
whole_file described(const std::filesystem::path& path);

/// Hashes those that have an expected digest, on as many threads as the machine has. `tell` is
/// called on this thread, once for each file, as soon as it is done; what it throws ends the
/// hashing. Stops, and throws `interrupted`, on Ctrl-C.
void hash_files(std::vector<whole_file>& files, const std::function<void(const whole_file&)>& tell);

}  // namespace ringload::tool
