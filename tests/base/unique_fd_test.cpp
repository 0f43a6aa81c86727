// SPDX-License-Identifier: Apache-2.0
#include "base/unique_fd.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <type_traits>
#include <utility>

using namespace ringload;

namespace {

unique_fd some_file() { return unique_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

}  // namespace

static_assert(!std::is_copy_constructible_v<unique_fd>);
static_assert(!std::is_copy_assignable_v<unique_fd>);

TEST_CASE("unique_fd: closes its descriptor when destroyed") {
  int number = -1;
  {
    const unique_fd fd = some_file();
    REQUIRE(fd);
    number = fd.get();
    CHECK(is_open(number));
  }
  CHECK_FALSE(is_open(number));
}

TEST_CASE("unique_fd: is empty for a failed open, but not for descriptor 0") {
  CHECK_FALSE(unique_fd());
  CHECK(unique_fd().get() == -1);
  CHECK_FALSE(unique_fd(-1));

  const unique_fd kept(::fcntl(0, F_DUPFD_CLOEXEC, 3));
  {
    const unique_fd zero(0);
    CHECK(zero);
  }
  CHECK_FALSE(is_open(0));
  if (kept) ::dup2(kept.get(), 0);
}

TEST_CASE("unique_fd: moving empties the source and keeps the file open") {
  unique_fd first = some_file();
  const int number = first.get();
  const unique_fd second = std::move(first);
  CHECK_FALSE(first);
  CHECK(second.get() == number);
  CHECK(is_open(number));
}

TEST_CASE("unique_fd: assignment closes what was owned before") {
  unique_fd target = some_file();
  unique_fd source = some_file();
  const int before = target.get();
  const int after = source.get();
  target = std::move(source);
  CHECK_FALSE(is_open(before));
  CHECK(is_open(after));
  CHECK(target.get() == after);
  CHECK_FALSE(source);

  target = unique_fd();
  CHECK_FALSE(is_open(after));
  CHECK_FALSE(target);
}

TEST_CASE("unique_fd: assigned to itself it stays as it was") {
  unique_fd fd = some_file();
  unique_fd& same = fd;
  const int number = fd.get();
  fd = std::move(same);
  CHECK(fd.get() == number);
  CHECK(is_open(number));
}
