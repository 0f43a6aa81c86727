// SPDX-License-Identifier: Apache-2.0
#include "catalog/openat_beneath.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "catalog/source_file.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using ringload::testing::temporary_folder;
using ringload::testing::write_file;

namespace {

namespace fs = std::filesystem;
using open_function = result<unique_fd>(int, const std::string&, int);

struct tree {
  tree() {
    write_file(folder.path() / "outside.txt", "secret");
    write_file(root / "file.txt", "file");
    write_file(root / "sub/inner.txt", "inner");
    fs::create_symlink("../file.txt", root / "sub/up");
    fs::create_symlink("sub", root / "folder_link");
    fs::create_symlink("../outside.txt", root / "escape");
    fs::create_symlink(folder.path() / "outside.txt", root / "absolute");
    fs::create_symlink("..", root / "parent");
    fs::create_symlink("/proc/self/exe", root / "magic");
    fs::create_symlink("circle", root / "circle");
    fs::create_symlink("nowhere", root / "broken");
    fd = unique_fd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }

  temporary_folder folder;
  fs::path root = folder.path() / "root";
  unique_fd fd;
};

boost::system::error_code code_of(open_function* open, const tree& in, const std::string& path) {
  const auto opened = open(in.fd.get(), path, open_unknown_flags);
  return opened ? boost::system::error_code{} : opened.error().code;
}

void check_rules(open_function* open) {
  const tree in;
  for (const char* path : {"file.txt", "sub/inner.txt", "sub/up", "folder_link/inner.txt",
                           "sub/../file.txt", "./file.txt"}) {
    CAPTURE(path);
    CHECK_FALSE(code_of(open, in, path));
  }
  for (const char* path : {"../outside.txt", "escape", "absolute", "parent/outside.txt", "magic",
                           "sub/../../outside.txt", "/etc/passwd", "circle"}) {
    CAPTURE(path);
    CHECK(code_of(open, in, path) == errc::path_outside_source);
  }
  for (const char* path : {"none.txt", "broken", "file.txt/below", "sub/none"}) {
    CAPTURE(path);
    CHECK(code_of(open, in, path) == errc::source_not_found);
  }
}

}  // namespace

TEST_CASE("openat_beneath: opens what stays beneath the root and nothing else") {
  check_rules(openat_beneath);
}

TEST_CASE("openat_beneath: the same rules hold where openat2 is refused") {
  check_rules(openat_beneath_by_location);
}

TEST_CASE("openat_beneath: a folder whose name merely begins like the root is outside") {
  const tree in;
  write_file(in.folder.path() / "root-other/file.txt", "secret");
  fs::create_symlink("../root-other/file.txt", in.root / "beside");
  CHECK(code_of(openat_beneath, in, "beside") == errc::path_outside_source);
  CHECK(code_of(openat_beneath_by_location, in, "beside") == errc::path_outside_source);
}

TEST_CASE("openat_beneath: a FIFO without a writer does not block") {
  const tree in;
  REQUIRE(::mkfifo((in.root / "fifo").c_str(), 0600) == 0);
  for (open_function* open : {&openat_beneath, &openat_beneath_by_location}) {
    auto fd = open(in.fd.get(), "fifo", open_unknown_flags);
    REQUIRE(fd.has_value());
    CHECK(as_regular_file(std::move(*fd)).error().code == errc::not_a_regular_file);
  }
}

TEST_CASE("openat_beneath: knows a symlink from a file, wherever it leads") {
  const tree in;
  CHECK(is_symlink_at(in.fd.get(), "broken"));
  CHECK(is_symlink_at(in.fd.get(), "escape"));
  CHECK_FALSE(is_symlink_at(in.fd.get(), "file.txt"));
  CHECK_FALSE(is_symlink_at(in.fd.get(), "none.txt"));
}
