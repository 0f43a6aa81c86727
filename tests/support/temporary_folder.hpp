// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder that exists as long as the object does.

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace ringload::testing {

class temporary_folder {
 public:
  temporary_folder() : temporary_folder(usual_place()) {}
  // In a folder of one's choice: `/tmp` may be in memory, the build tree is on a drive.
  explicit temporary_folder(const std::filesystem::path& base) {
    std::string name = (base / "ringload-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp fails: " + name);
    // Without symlinks of its own, so that a test can compare paths as text.
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
  static std::filesystem::path usual_place() {
    const char* base = std::getenv("TMPDIR");
    return base != nullptr && *base != '\0' ? base : "/tmp";
  }

  std::filesystem::path path_;
};

}  // namespace ringload::testing
