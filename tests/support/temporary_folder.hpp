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
  temporary_folder() {
    const char* base = std::getenv("TMPDIR");
    std::string name = base != nullptr && *base != '\0' ? base : "/tmp";
    name += "/ringload-XXXXXX";
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
  std::filesystem::path path_;
};

}  // namespace ringload::testing
