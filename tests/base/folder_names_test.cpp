// SPDX-License-Identifier: Apache-2.0
#include "base/folder_names.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/unique_fd.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;

TEST_CASE("folder_names: returns files and folders, again at the second call") {
  const testing::temporary_folder folder;
  CHECK(folder_names(folder.path())->empty());
  std::ofstream(folder.path() / "a file");
  std::filesystem::create_directory(folder.path() / "a folder");
  const unique_fd opened(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY));
  for (int call = 0; call < 2; ++call) {
    auto names = folder_names(opened.get());
    REQUIRE(names.has_value());
    std::ranges::sort(*names);
    CHECK(*names == std::vector<std::string>{"a file", "a folder"});
  }
}

TEST_CASE("folder_names: a folder that does not exist is an error with its number") {
  const testing::temporary_folder folder;
  CHECK(folder_names(folder.path() / "missing").error().code == system_code(ENOENT));
  std::ofstream(folder.path() / "file");
  CHECK(folder_names(folder.path() / "file").error().code == system_code(ENOTDIR));
}
