// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads and writes files of the local Hugging Face cache, and creates its folders.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/fault.hpp"

namespace ringload::inline v0::remote_http {

constexpr ::mode_t cache_file_mode = 0666;  // Of new files, before the umask.

fault system_fault(int error_number, const std::string& path);

// Creates the folder and its parents. Returns success if the folder exists.
result<void> make_folders(const std::filesystem::path& path);

// Returns truncated_file with an empty where() if the file has too few bytes.
result<void> read_all(int fd, std::span<std::byte> into, std::uint64_t offset);

// Returns changed_file with an empty where() if the file has other bytes at the offset.
result<void> compare_all(int fd, std::span<const std::byte> expected, std::uint64_t offset);

// Returns an empty string if the file cannot be read or is too large.
std::string read_text(const std::string& path);

// Replaces the file atomically. At any time, the file has either the old or the new content.
result<void> replace_text(const std::string& path, std::string_view text);

// Creates the symlink. Atomically replaces an existing file or symlink.
result<void> replace_symlink(const std::string& path, const std::string& target);

}  // namespace ringload::inline v0::remote_http
