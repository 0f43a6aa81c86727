// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whole files whose names say what they hash to: those of a Hugging Face cache. A file of a
// snapshot is a link to blobs/<name>; the name is the SHA-256 of a large file, and of a small one
// what git calls it: the SHA-1 of "blob <size>", a zero byte and the bytes.

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

/// `path` as it is, with the digest that its blob's name is. Looks at links, not at bytes.
whole_file described(const std::filesystem::path& path);

/// Hashes those that have an expected digest, on as many threads as the machine has. `tell` is
/// called on this thread, once for each file, as soon as it is done; what it throws ends the
/// hashing. Stops, and throws `interrupted`, on Ctrl-C.
void hash_files(std::vector<whole_file>& files, const std::function<void(const whole_file&)>& tell);

}  // namespace ringload::tool
