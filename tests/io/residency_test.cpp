// SPDX-License-Identifier: Apache-2.0
#include "io/residency.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>

#include "support/in_child.hpp"
#include "support/noise_file.hpp"
#include "support/seccomp.hpp"
#include "support/skip.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t pages = 100;
constexpr std::uint64_t page = 4096;
constexpr long cachestat_call = 451;

// A file of 100 pages.
struct file_on_disk {
  file_on_disk() {
    write_noise(folder.path() / "noise", pages * page);
    fd = open_file(folder.path() / "noise", O_RDWR);
    make_cold(fd.get());
    // A read then caches its own pages without readahead.
    REQUIRE(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM) == 0);
  }
  void warm(std::uint64_t first, std::uint64_t count) const {
    std::array<char, page> into;
    for (std::uint64_t i = first; i < first + count; ++i) {
      REQUIRE(::pread(fd.get(), into.data(), page, static_cast<::off_t>(i * page)) == page);
    }
  }
  residency of(std::uint64_t first, std::uint64_t count) const {
    return residency_of(fd.get(), first * page, count * page);
  }
  residency of_all() const { return of(0, pages); }

  temporary_folder folder;
  unique_fd fd;
};

// Returns true if the kernel supports cachestat for our files.
bool has_cachestat(const file_on_disk& file) {
  if (file.of_all() != residency::unknown) return true;
  skip("this kernel has no cachestat");
  return false;
}

}  // namespace

TEST_CASE("residency: a file that was dropped from the page cache is cold") {
  const file_on_disk file;
  if (!has_cachestat(file)) return;
  CHECK(file.of_all() == residency::cold);
  CHECK(file.of(50, 1) == residency::cold);
}

TEST_CASE("residency: a file that was read is cached, in whole and in part") {
  const file_on_disk file;
  if (!has_cachestat(file)) return;
  file.warm(0, pages);
  CHECK(file.of_all() == residency::cached);
  CHECK(file.of(99, 1) == residency::cached);
  // Drops the pages again.
  make_cold(file.fd.get());
  CHECK(file.of_all() == residency::cold);
}

TEST_CASE("residency: nine tenths are enough, less is not") {
  const file_on_disk file;
  if (!has_cachestat(file)) return;
  file.warm(0, 89);
  CHECK(file.of_all() == residency::cold);
  file.warm(89, 1);
  CHECK(file.of_all() == residency::cached);
}

TEST_CASE("residency: of a long range both ends are enough, one of them is not") {
  const file_on_disk file;
  if (!has_cachestat(file)) return;
  file.warm(0, 20);
  CHECK(file.of_all() == residency::cold);
  file.warm(84, 16);
  CHECK(file.of_all() == residency::cached);
  CHECK(file.of(0, 60) == residency::cold);
  CHECK(file.of(4, 64) == residency::cold);
}

TEST_CASE("residency: looks at the range that it is asked about") {
  const file_on_disk file;
  if (!has_cachestat(file)) return;
  file.warm(50, 50);
  CHECK(file.of(0, 50) == residency::cold);
  CHECK(file.of(50, 50) == residency::cached);
  CHECK(file.of(45, 10) == residency::cold);
  CHECK(file.of(49, 10) == residency::cached);
  // A partial page counts as a page.
  CHECK(residency_of(file.fd.get(), 50 * page + 1000, 10) == residency::cached);
  CHECK(residency_of(file.fd.get(), 49 * page + 4000, 90) == residency::cold);
}

TEST_CASE("residency: written bytes that are not on the drive yet are dirty") {
  const file_on_disk file;
  if (!has_cachestat(file)) return;
  file.warm(0, pages);
  // Another process may call sync() at the same time, so the test tries several times.
  bool seen = false;
  for (int i = 0; i < 100 && !seen; ++i) {
    REQUIRE(::pwrite(file.fd.get(), "x", 1, 10 * page) == 1);
    seen = file.of_all() == residency::dirty;
  }
  CHECK(seen);
  CHECK(file.of(50, 50) == residency::cached);

  REQUIRE(::fdatasync(file.fd.get()) == 0);
  CHECK(file.of_all() == residency::cached);
}

TEST_CASE("residency: unknown for what is no file, and where cachestat is refused") {
  CHECK(residency_of(-1, 0, 4096) == residency::unknown);

  const file_on_disk file;
  for (const int error_number : {ENOSYS, EPERM}) {
    const std::string said = said_in_child([&]() -> std::string {
      refuse_calls({cachestat_call}, error_number);
      return file.of_all() == residency::unknown ? "unknown" : "known";
    });
    CHECK(said == "unknown");
  }
}
