// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder that exists as long as the object.

#include <sys/vfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace ringload::testing {

// A file system in memory has neither direct reads nor a page cache.
inline bool is_in_memory(const std::filesystem::path& path) {
  constexpr long tmpfs_magic = 0x01021994;
  constexpr long ramfs_magic = 0x858458f6;
  struct ::statfs info = {};
  return ::statfs(path.c_str(), &info) == 0 &&
         (info.f_type == tmpfs_magic || info.f_type == ramfs_magic);
}

// $TMPDIR, or /tmp.
inline std::filesystem::path system_temporary_folder() {
  const char* chosen = std::getenv("TMPDIR");
  return chosen != nullptr && *chosen != '\0' ? chosen : "/tmp";
}

class temporary_folder {
 public:
  // In the folder of the program, because /tmp is in memory on many machines. In $TMPDIR or /tmp
  // only if the folder of the program is not writable or is in memory too.
  temporary_folder() : temporary_folder(usual_base()) {}
  // The path of a Unix socket may have 107 bytes, and that of the build folder may be longer.
  static temporary_folder for_sockets() { return temporary_folder(system_temporary_folder()); }

  explicit temporary_folder(const std::filesystem::path& base) {
    std::string name = (base / "ringload-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp fails: " + name);
    // Without symlinks, so that a test can compare paths as text.
    path_ = std::filesystem::canonical(name);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  static std::filesystem::path usual_base() {
    std::error_code failed;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
    const std::filesystem::path beside = program.parent_path();
    const bool can_write = !failed && ::access(beside.c_str(), W_OK) == 0;
    if (can_write && !is_in_memory(beside)) return beside;
    return system_temporary_folder();
  }

  std::filesystem::path path_;
};

}  // namespace ringload::testing
