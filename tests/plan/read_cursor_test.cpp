// SPDX-License-Identifier: Apache-2.0
#include "plan/read_cursor.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "base/io_unit.hpp"

using namespace ringload;

namespace {

constexpr std::uint32_t block = block_bytes;
constexpr std::uint64_t begin = 64 * block;

// From block 64 of the file on.
read_op read_of(std::uint32_t bytes, std::uint32_t bytes_needed) {
  read_op op = {};
  op.file_offset = begin;
  op.destination_offset = read_op::staged;
  op.bytes = bytes;
  op.bytes_needed = bytes_needed;
  return op;
}

using step = read_cursor::step;

// Nothing more is to be read.
bool is_complete(const result<std::optional<step>>& next) { return next && !*next; }

}  // namespace

TEST_CASE("read_cursor: begins with the whole read") {
  const read_cursor cursor(read_of(3 * block, 2 * block + 7), block);
  CHECK(cursor.first() == step{begin, 0, 3 * block});
  CHECK(cursor.reached_offset() == begin);
}

TEST_CASE("read_cursor: a full read is complete") {
  read_cursor cursor(read_of(3 * block, 3 * block), block);
  CHECK(is_complete(cursor.completed(3 * block)));
  CHECK(cursor.short_reads() == 0);
  CHECK(cursor.retries() == 0);
}

TEST_CASE("read_cursor: a file may end where nothing more is needed") {
  // Two blocks are asked for and 5,000 bytes needed, which is where the file ends.
  CHECK(is_complete(read_cursor(read_of(2 * block, 5000), block).completed(5000)));
  CHECK(is_complete(read_cursor(read_of(2 * block, 5000), 1).completed(5000)));
  CHECK(is_complete(read_cursor(read_of(2 * block, 5000), block).completed(5001)));
}

TEST_CASE("read_cursor: a short read resumes at the block it stopped in") {
  // Two blocks are wanted and 5,000 bytes arrive. The 904 bytes of the second block cannot be
  // kept, because direct I/O could not resume after them.
  read_cursor cursor(read_of(2 * block, 2 * block), block);
  const auto next = cursor.completed(5000);
  REQUIRE(next.has_value());
  CHECK(*next == step{begin + block, block, block});
  CHECK(cursor.reached_offset() == begin + block);
  CHECK(cursor.short_reads() == 1);
  CHECK(is_complete(cursor.completed(block)));
}

TEST_CASE("read_cursor: a buffered read resumes at the byte it stopped at") {
  read_cursor cursor(read_of(2 * block, 2 * block), 1);
  const auto next = cursor.completed(5000);
  REQUIRE(next.has_value());
  CHECK(*next == step{begin + 5000, 5000, 2 * block - 5000});
  CHECK(is_complete(cursor.completed(2 * block - 5000)));
}

TEST_CASE("read_cursor: a read may come block by block, and its pieces add up") {
  read_cursor cursor(read_of(4 * block, 3 * block + 1), block);
  for (std::uint32_t i = 1; i <= 3; ++i) {
    const auto next = cursor.completed(block);
    REQUIRE(next.has_value());
    CHECK(*next == step{begin + i * block, i * block, (4 - i) * block});
  }
  CHECK(is_complete(cursor.completed(1)));
  CHECK(cursor.short_reads() == 3);
}

TEST_CASE("read_cursor: one byte less than needed is not enough") {
  read_cursor cursor(read_of(2 * block, 5000), block);
  const auto next = cursor.completed(4999);
  REQUIRE(next.has_value());
  CHECK(*next == step{begin + block, block, block});
}

TEST_CASE("read_cursor: a file that ends inside a block is truncated, not read forever") {
  read_cursor cursor(read_of(2 * block, 2 * block), block);
  REQUIRE(cursor.completed(5000).has_value());
  const auto next = cursor.completed(904);
  REQUIRE_FALSE(next.has_value());
  CHECK(next.error().code == errc::truncated_file);
  // The 904 bytes did come, so the file ends behind them.
  CHECK(cursor.reached_offset() == begin + 5000);
}

TEST_CASE("read_cursor: an end of file before the first byte is truncation") {
  for (const std::uint32_t alignment : {1U, block}) {
    read_cursor cursor(read_of(block, 1), alignment);
    CHECK(cursor.completed(0).error().code == errc::truncated_file);
    CHECK(cursor.reached_offset() == begin);
  }
}

TEST_CASE("read_cursor: a buffered read that gets nothing more is truncated") {
  read_cursor cursor(read_of(2 * block, 2 * block), 1);
  REQUIRE(cursor.completed(5000).has_value());
  CHECK(cursor.completed(0).error().code == errc::truncated_file);
  CHECK(cursor.reached_offset() == begin + 5000);
}

TEST_CASE("read_cursor: EINTR and EAGAIN ask for the same step again") {
  for (const int error_number : {EINTR, EAGAIN}) {
    read_cursor cursor(read_of(2 * block, 2 * block), block);
    auto next = cursor.completed(-error_number);
    REQUIRE(next.has_value());
    CHECK(*next == step{begin, 0, 2 * block});
    REQUIRE(cursor.completed(block).has_value());
    next = cursor.completed(-error_number);
    REQUIRE(next.has_value());
    CHECK(*next == step{begin + block, block, block});
    CHECK(cursor.retries() == 2);
    CHECK(cursor.short_reads() == 1);
    CHECK(is_complete(cursor.completed(block)));
  }
}

TEST_CASE("read_cursor: fails after too many EAGAIN without progress") {
  read_cursor cursor(read_of(block, block), block);
  for (unsigned i = 0; i < read_cursor::retries_max; ++i) {
    REQUIRE(cursor.completed(i % 2 == 0 ? -EAGAIN : -EINTR).has_value());
  }
  const auto next = cursor.completed(-EAGAIN);
  REQUIRE_FALSE(next.has_value());
  CHECK(next.error().code == system_code(EAGAIN));
  CHECK(cursor.retries() == read_cursor::retries_max);
}

TEST_CASE("read_cursor: progress resets the count of retries") {
  read_cursor cursor(read_of(2 * block, 2 * block), block);
  for (int round = 0; round < 2; ++round) {
    for (unsigned i = 0; i < read_cursor::retries_max; ++i) {
      REQUIRE(cursor.completed(-EAGAIN).has_value());
    }
    REQUIRE(cursor.completed(block).has_value());
  }
  CHECK(cursor.retries() == 2 * read_cursor::retries_max);
}

TEST_CASE("read_cursor: any other error ends the read and keeps its number") {
  for (const int error_number : {EIO, EINVAL, EBADF, ENOMEM, EFAULT, ECANCELED}) {
    read_cursor cursor(read_of(2 * block, 2 * block), block);
    REQUIRE(cursor.completed(block).has_value());
    const auto next = cursor.completed(-error_number);
    REQUIRE_FALSE(next.has_value());
    CHECK(next.error().code == system_code(error_number));
    CHECK(cursor.reached_offset() == begin + block);
  }
}

TEST_CASE("read_cursor: offsets past 4 GiB stay whole") {
  read_op op = read_of(2 * block, 2 * block);
  op.file_offset = std::uint64_t{1} << 40;
  read_cursor cursor(op, block);
  const auto next = cursor.completed(block);
  REQUIRE(next.has_value());
  CHECK(*next == step{(std::uint64_t{1} << 40) + block, block, block});
  CHECK(cursor.reached_offset() == (std::uint64_t{1} << 40) + block);
}
