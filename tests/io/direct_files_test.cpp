// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sched.h>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/mapping.hpp"
#include "io/direct_file.hpp"
#include "support/in_child.hpp"
#include "support/noise_file.hpp"
#include "support/seccomp.hpp"
#include "support/skip.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t file_bytes = 10'000;

// The tests need a file system with direct reads.
struct file_on_disk {
  file_on_disk() {
    write_noise(path, file_bytes);
    buffered = open_file(path);
    struct ::statx answer = {};
    const unique_fd direct(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    const bool asked = ::statx(buffered.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &answer) == 0 &&
                       (answer.stx_mask & STATX_DIOALIGN) != 0;
    able = direct && !is_in_memory(path) && (!asked || answer.stx_dio_mem_align > 0);
    if (!able) skip("the build tree's file system has no direct reads");
  }
  temporary_folder folder;
  fs::path path = folder.path() / "noise";
  unique_fd buffered;
  bool able = false;
};

// Returns "yes", the reason, or the fault as one text, which a child process sends to its parent.
std::string verdict_on(direct_files& files, int fd, const fs::path& path) {
  const auto opened = files.open(fd, path.string(), file_bytes);
  if (!opened) return "fault: " + message_of(opened.error());
  return opened->fd ? "yes" : opened->refusal;
}

// Hides /proc. Root can do this, and other users can do it in a namespace.
bool enter_root(const fs::path& folder) {
  if (::chroot(folder.c_str()) != 0 &&
      (::unshare(CLONE_NEWUSER) != 0 || ::chroot(folder.c_str()) != 0)) {
    return false;
  }
  return ::chdir("/") == 0;
}

}  // namespace

TEST_CASE("direct_files: a file on a drive gets a second descriptor, for direct reads") {
  const file_on_disk file;
  if (!file.able) return;
  direct_files files;
  const auto opened = files.open(file.buffered.get(), file.path.string(), file_bytes);
  REQUIRE(opened.has_value());
  CHECK(opened->refusal.empty());
  REQUIRE(opened->fd);
  CHECK(opened->fd.get() != file.buffered.get());
  CHECK((::fcntl(opened->fd.get(), F_GETFL) & O_DIRECT) != 0);
  CHECK((::fcntl(opened->fd.get(), F_GETFL) & O_ACCMODE) == O_RDONLY);
  CHECK((::fcntl(opened->fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(file.buffered.get(), F_GETFL) & O_DIRECT) == 0);

  const auto memory = mapping::make(12'288, page_kind::small);
  REQUIRE(memory.has_value());
  CHECK(::pread(opened->fd.get(), memory->data(), 12'288, 0) == 10'000);
  CHECK(is_noise(memory->span().first(10'000), 0));
}

TEST_CASE("direct_files: reads of the descriptor wait, as those of the buffered one do") {
  // If a descriptor is non-blocking, reads by io_uring fail with EAGAIN instead of waiting.
  const file_on_disk file;
  if (!file.able) return;
  direct_files files;
  const auto opened = files.open(file.buffered.get(), file.path.string(), file_bytes);
  REQUIRE(opened.has_value());
  REQUIRE(opened->fd);
  CHECK((::fcntl(opened->fd.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("direct_files: says why a file cannot be read directly") {
  direct_files files;
  const temporary_folder folder;
  write_file(folder.path() / "empty", "");
  const unique_fd empty = open_file(folder.path() / "empty");
  const auto opened = files.open(empty.get(), (folder.path() / "empty").string(), 0);
  REQUIRE(opened.has_value());
  CHECK_FALSE(opened->fd);
  CHECK(opened->refusal == "the file is empty");

  if (!is_in_memory("/dev/shm")) return skip("/dev/shm is not in memory");
  const temporary_folder in_memory{"/dev/shm"};
  const fs::path path = in_memory.path() / "noise";
  write_noise(path, file_bytes);
  CHECK(verdict_on(files, open_file(path).get(), path) ==
        "the files of this file system are in memory");
}

TEST_CASE("direct_files: reopens the open file, whatever its path names by now") {
  const file_on_disk file;
  if (!file.able) return;
  direct_files files;
  SUBCASE("another file") {
    write_file(file.folder.path() / "new", "something else");
    fs::rename(file.folder.path() / "new", file.path);
  }
  SUBCASE("none") { fs::remove(file.path); }
  const auto opened = files.open(file.buffered.get(), file.path.string(), file_bytes);
  REQUIRE(opened.has_value());
  REQUIRE(opened->fd);
  const auto memory = mapping::make(12'288, page_kind::small);
  REQUIRE(memory.has_value());
  CHECK(::pread(opened->fd.get(), memory->data(), 12'288, 0) == 10'000);
  CHECK(is_noise(memory->span().first(10'000), 0));
}

TEST_CASE("direct_files: without /proc the path is opened, and must still name the same file") {
  const file_on_disk file;
  if (!file.able) return;
  const fs::path root = file.folder.path();
  write_noise(root / "other", file_bytes);
  const std::string said = said_in_child([&]() -> std::string {
    if (!enter_root(root)) return "no root";
    direct_files files;
    return verdict_on(files, file.buffered.get(), "/noise") + "\n" +
           verdict_on(files, file.buffered.get(), "/other") + "\n" +
           verdict_on(files, file.buffered.get(), "/none");
  });
  if (said == "no root") return skip("this user may not change the root");
  CHECK(said ==
        "yes\n"
        "fault: the file was replaced while it was opened\n"
        "fault: No such file or directory");
}

TEST_CASE("direct_files: a replaced file is errc::changed_file") {
  const file_on_disk file;
  if (!file.able) return;
  const fs::path root = file.folder.path();
  write_noise(root / "other", file_bytes);
  const std::string said = said_in_child([&]() -> std::string {
    if (!enter_root(root)) return "no root";
    direct_files files;
    const auto opened = files.open(file.buffered.get(), "/other", file_bytes);
    return opened.error().code == errc::changed_file ? "changed_file" : "another code";
  });
  if (said == "no root") return skip("this user may not change the root");
  CHECK(said == "changed_file");
}

TEST_CASE("direct_files: one trial read decides for the whole file system") {
  const file_on_disk file;
  const file_on_disk second;
  if (!file.able || !second.able) return;
  const auto verdict = [](direct_files& files, const file_on_disk& on) {
    return verdict_on(files, on.buffered.get(), on.path);
  };

  SUBCASE("a refused read is not tried again") {
    const std::string said = said_in_child([&]() -> std::string {
      refuse_calls({SYS_pread64}, EOPNOTSUPP);
      direct_files files;
      return verdict(files, file) + "\n" + verdict(files, second);
    });
    CHECK(said ==
          "a direct read was refused: Operation not supported\n"
          "a direct read was refused: Operation not supported");
  }
  SUBCASE("a good one is not made again") {
    const std::string said = said_in_child([&]() -> std::string {
      direct_files files;
      std::string all = verdict(files, file);
      refuse_calls({SYS_pread64}, EOPNOTSUPP);
      all += "\n" + verdict(files, second);
      // An object without this result gets another result.
      direct_files others;
      return all + "\n" + verdict(others, file);
    });
    CHECK(said == "yes\nyes\na direct read was refused: Operation not supported");
  }
}
