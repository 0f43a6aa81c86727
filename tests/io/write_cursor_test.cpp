// SPDX-License-Identifier: Apache-2.0

// Where a write resumes that the kernel took in part.

#include "io/writers/write_cursor.hpp"

#include <doctest/doctest.h>

#include <cerrno>

using namespace ringload;

TEST_CASE("write_cursor: a write that is taken whole is complete") {
  write_cursor cursor(8192, 4096);
  CHECK(*cursor.completed(8192));
  CHECK(cursor.written() == 8192);
}

TEST_CASE("write_cursor: a short direct write resumes at a whole unit") {
  // 5,000 bytes are one unit of 4,096 and 904 bytes, which are written again.
  write_cursor cursor(8192, 4096);
  CHECK_FALSE(*cursor.completed(5000));
  CHECK(cursor.written() == 4096);
  CHECK(*cursor.completed(4096));
}

TEST_CASE("write_cursor: a short buffered write resumes at the byte that it reached") {
  write_cursor cursor(8192, 1);
  CHECK_FALSE(*cursor.completed(5000));
  CHECK(cursor.written() == 5000);
  CHECK(*cursor.completed(3192));
}

TEST_CASE(
    "write_cursor: two writes in a row without a whole unit fail, because a third would too") {
  write_cursor cursor(8192, 4096);
  CHECK_FALSE(*cursor.completed(100));
  const auto second = cursor.completed(0);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code.value() == EIO);
}

TEST_CASE("write_cursor: progress between two writes without a unit resets the count") {
  write_cursor cursor(12288, 4096);
  CHECK_FALSE(*cursor.completed(0));
  CHECK_FALSE(*cursor.completed(4096));
  CHECK_FALSE(*cursor.completed(0));
  CHECK(*cursor.completed(8192));
}

TEST_CASE("write_cursor: EINTR and EAGAIN are repeated, up to a bound") {
  write_cursor cursor(4096, 4096);
  for (unsigned i = 0; i < write_cursor::retries_max; ++i) {
    REQUIRE_FALSE(*cursor.completed(i % 2 == 0 ? -EINTR : -EAGAIN));
  }
  const auto last = cursor.completed(-EAGAIN);
  REQUIRE_FALSE(last.has_value());
  CHECK(last.error().code.value() == EAGAIN);
}

TEST_CASE("write_cursor: any other errno fails at once") {
  write_cursor cursor(4096, 4096);
  const auto outcome = cursor.completed(-ENOSPC);
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().code.value() == ENOSPC);
}
