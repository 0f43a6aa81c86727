// SPDX-License-Identifier: Apache-2.0

// Each writing system call fails once. The file then has either its old or its new content, and no
// other file is left. io_uring is refused, because its writes are not system calls.

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "base/fault.hpp"
#include "support/descriptors.hpp"
#include "support/seccomp.hpp"
#include "support/temporary_folder.hpp"
#include "support/written_file.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

std::atomic<int> calls_to_failure = -1;  // If negative, no failure follows.
std::atomic<int> error_to_come = EIO;
// These calls always fail with this error. 0 means no failure.
std::atomic<int> copy_refusal = 0;
std::atomic<int> fsync_refusal = 0;
// If true, each allocation enlarges the file and fails with ENOSPC, as on a nearly full ext4 drive.
std::atomic<bool> is_nearly_full = false;
std::atomic<int> failed_allocations = 0;
std::atomic<off_t> largest_size = 0;  // The largest file size before a write to the full drive.

bool is_refused(int error_number) {
  errno = error_number;
  return error_number != 0;
}

bool fails_now() {
  if (calls_to_failure < 0 || calls_to_failure-- != 0) return false;
  errno = error_to_come;
  return true;
}

}  // namespace

// Replace the functions of the C library in the whole program.
extern "C" {

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  if (fails_now()) return -1;
  struct stat file = {};
  if (is_nearly_full && fstat(fd, &file) == 0 && file.st_size > largest_size) {
    largest_size = file.st_size;
  }
  return syscall(SYS_pwrite64, fd, from, bytes, offset);
}
ssize_t copy_file_range(int from, off64_t* at, int to, off64_t* there, size_t bytes,
                        unsigned flags) {
  if (is_refused(copy_refusal) || fails_now()) return -1;
  return syscall(SYS_copy_file_range, from, at, to, there, bytes, flags);
}
int ftruncate(int fd, off_t bytes) noexcept {
  return fails_now() ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, bytes));
}
int fallocate(int fd, int mode, off_t from, off_t bytes) {
  if (is_nearly_full) {
    ++failed_allocations;
    errno = syscall(SYS_ftruncate, fd, from + bytes) == 0 ? ENOSPC : EIO;
    return -1;
  }
  return fails_now() ? -1 : static_cast<int>(syscall(SYS_fallocate, fd, mode, from, bytes));
}
int fsync(int fd) {
  if (is_refused(fsync_refusal) || fails_now()) return -1;
  return static_cast<int>(syscall(SYS_fsync, fd));
}
int linkat(int from, const char* a, int to, const char* b, int flags) noexcept {
  return fails_now() ? -1 : static_cast<int>(syscall(SYS_linkat, from, a, to, b, flags));
}
int rename(const char* from, const char* to) noexcept {
  return fails_now() ? -1
                     : static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

}  // extern "C"

namespace {

std::size_t entries(const std::filesystem::path& folder) {
  const auto all = std::filesystem::directory_iterator(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

struct walk {
  temporary_folder folder;
  std::string path = (folder.path() / "a.zt").string();
  int failures = 0;

  walk() {
    static const bool refused = (refuse_io_uring(EPERM), true);
    REQUIRE(refused);
  }

  // Runs `change` with a failure at each call, until a run has no failure.
  void run(const std::string& before, const std::function<void()>& change) {
    change();
    const std::string after = file_text(path);
    const std::size_t descriptors = open_descriptors();
    for (int n = 0;; ++n) {
      write_file(path, before);
      error_to_come = n % 2 == 0 ? EIO : ENOSPC;
      calls_to_failure = n;
      const auto code = code_of_call(change);
      const bool failed = calls_to_failure < 0;
      calls_to_failure = -1;
      const std::string found = file_text(path);
      CAPTURE(n);
      if (code) {
        // Only the flush of the folder follows after the file has its name.
        CHECK((found == before || found == after));
      } else {
        CHECK(found == after);
      }
      CHECK(entries(folder.path()) == 1);
      CHECK(open_descriptors() == descriptors);
      if (!failed) break;
      ++failures;
    }
  }
};

}  // namespace

TEST_CASE("writer: a call that fails leaves the old file or the new one") {
  walk all;
  const auto fill = [&](writer& to, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      add(to, noise_view("t" + std::to_string(i), dtype::u8, {3'000'000}, i),
          packed(i % 2 == 0 ? 0 : 1));
    }
  };
  SUBCASE("a new one") {
    all.run("before", [&] {
      writer out(all.path);
      fill(out, 4);
      finish(out);
    });
    CHECK(all.failures >= 6);
  }
  SUBCASE("a new one of safetensors") {
    all.path = (all.folder.path() / "a.safetensors").string();
    all.run("before", [&] {
      writer out(all.path, {{"t0", dtype::u8, {3'000'000}}, {"t1", dtype::u8, {3'000'000}}}, {});
      add(out, noise_view("t0", dtype::u8, {3'000'000}, 0));
      add(out, noise_view("t1", dtype::u8, {3'000'000}, 1));
      finish(out);
    });
    CHECK(all.failures >= 6);
  }
  SUBCASE("appended to, and replaced in") {
    {
      writer out(all.path);
      fill(out, 3);
      finish(out);
    }
    const std::string before = file_text(all.path);
    all.run(before, [&] {
      writer out = writer::append(all.path);
      add(out, noise_view("new", dtype::u8, {9'000'000}, 9));
      get(out.replace_async(noise_view("t0", dtype::u8, {3'000'000}, 77), use_future));
      finish(out);
    });
    CHECK(all.failures >= 9);
  }
}

TEST_CASE("writer: without copy_file_range, a file is copied by reads and writes") {
  walk all;
  {
    writer out(all.path);
    add(out, noise_view("a", dtype::u8, {3'000'001}, 1));
    finish(out);
  }
  const auto before = loaded_bytes(all.path).at("a");
  for (const int refusal : {ENOSYS, EOPNOTSUPP, EXDEV, EPERM}) {
    copy_refusal = refusal;
    writer out = writer::append(all.path);
    add(out, noise_view("b" + std::to_string(refusal), dtype::u8, {5}, 2));
    finish(out);
    copy_refusal = 0;
    CHECK(loaded_bytes(all.path).at("a") == before);
  }
  CHECK(loaded_bytes(all.path).size() == 5);
}

TEST_CASE("writer: a flush that fails says why") {
  walk all;
  writer out(all.path);
  add(out, noise_view("a", dtype::u8, {5}, 1));
  fsync_refusal = EDQUOT;
  const auto failed = failure_of(out.finish_async(use_future));
  fsync_refusal = 0;
  REQUIRE(failed.has_value());
  CHECK(failed->code() == system_code(EDQUOT));
  CHECK(holds(failed->what(), "it cannot be flushed to the drive: Disk quota exceeded"));
}

TEST_CASE(
    "writer: an allocation that enlarges the file and fails leaves no bytes after the index") {
  walk all;
  const tensor_ref large = noise_view("t", dtype::u8, {14'000'000}, 1);
  const auto make_file = [&] {
    writer out(all.path);
    add(out, large);
    finish(out);
  };
  make_file();
  const std::string expected = file_text(all.path);
  is_nearly_full = true;
  make_file();
  is_nearly_full = false;
  CHECK(file_text(all.path) == expected);
  CHECK(failed_allocations == 1);
  CHECK(static_cast<std::uint64_t>(largest_size) <= expected.size());
}
