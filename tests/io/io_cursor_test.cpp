// SPDX-License-Identifier: Apache-2.0
#include "io/io_cursor.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "base/io_unit.hpp"

using namespace ringload;

namespace {

constexpr std::uint32_t block = block_bytes;
constexpr std::uint64_t begin = 64 * block;

// A read that begins at block 64 of the file.
io_cursor read_of(std::uint32_t bytes, std::uint32_t bytes_needed, std::uint32_t unit) {
  return io_cursor::read(begin, bytes, bytes_needed, unit);
}

io_cursor write_of(std::uint32_t bytes, std::uint32_t unit) {
  return io_cursor::write(begin, bytes, unit);
}

using step = io_cursor::step;

// The transfer is complete.
bool is_complete(const result<std::optional<step>>& next) { return next && !*next; }

}  // namespace

TEST_CASE("io_cursor: begins with the whole read") {
  const io_cursor cursor = read_of(3 * block, 2 * block + 7, block);
  CHECK(cursor.first() == step{begin, 0, 3 * block});
  CHECK(cursor.reached_offset() == begin);
}

TEST_CASE("io_cursor: a full read is complete") {
  io_cursor cursor = read_of(3 * block, 3 * block, block);
  CHECK(is_complete(cursor.completed(3 * block)));
  CHECK(cursor.short_transfers() == 0);
  CHECK(cursor.retries() == 0);
}

TEST_CASE("io_cursor: a file may end where nothing more is needed") {
  // Two blocks are requested and 5,000 bytes are needed. The file ends there.
  CHECK(is_complete(read_of(2 * block, 5000, block).completed(5000)));
  CHECK(is_complete(read_of(2 * block, 5000, 1).completed(5000)));
  CHECK(is_complete(read_of(2 * block, 5000, block).completed(5001)));
}

TEST_CASE("io_cursor: a short read resumes at the block it stopped in") {
  // Two blocks are requested and 5,000 bytes arrive. The 904 bytes of the second block are read
  // again, because direct I/O cannot resume after them.
  io_cursor cursor = read_of(2 * block, 2 * block, block);
  const auto next = cursor.completed(5000);
  REQUIRE(next.has_value());
  CHECK(*next == step{begin + block, block, block});
  CHECK(cursor.reached_offset() == begin + block);
  CHECK(cursor.short_transfers() == 1);
  CHECK(is_complete(cursor.completed(block)));
}

TEST_CASE("io_cursor: a buffered read resumes at the byte it stopped at") {
  io_cursor cursor = read_of(2 * block, 2 * block, 1);
  const auto next = cursor.completed(5000);
  REQUIRE(next.has_value());
  CHECK(*next == step{begin + 5000, 5000, 2 * block - 5000});
  CHECK(is_complete(cursor.completed(2 * block - 5000)));
}

TEST_CASE("io_cursor: a read may come block by block, and its pieces add up") {
  io_cursor cursor = read_of(4 * block, 3 * block + 1, block);
  for (std::uint32_t i = 1; i <= 3; ++i) {
    const auto next = cursor.completed(block);
    REQUIRE(next.has_value());
    CHECK(*next == step{begin + i * block, i * block, (4 - i) * block});
  }
  CHECK(is_complete(cursor.completed(1)));
  CHECK(cursor.short_transfers() == 3);
}

TEST_CASE("io_cursor: one byte less than needed is not enough") {
  io_cursor cursor = read_of(2 * block, 5000, block);
  const auto next = cursor.completed(4999);
  REQUIRE(next.has_value());
  CHECK(*next == step{begin + block, block, block});
}

TEST_CASE("io_cursor: a file that ends inside a block is truncated, not read forever") {
  io_cursor cursor = read_of(2 * block, 2 * block, block);
  REQUIRE(cursor.completed(5000).has_value());
  const auto next = cursor.completed(904);
  REQUIRE_FALSE(next.has_value());
  CHECK(next.error().code == errc::truncated_file);
  // The 904 bytes arrived, so the file ends after them.
  CHECK(cursor.reached_offset() == begin + 5000);
}

TEST_CASE("io_cursor: an end of file before the first byte is truncation") {
  for (const std::uint32_t alignment : {1U, block}) {
    io_cursor cursor = read_of(block, 1, alignment);
    CHECK(cursor.completed(0).error().code == errc::truncated_file);
    CHECK(cursor.reached_offset() == begin);
  }
}

TEST_CASE("io_cursor: a buffered read that gets nothing more is truncated") {
  io_cursor cursor = read_of(2 * block, 2 * block, 1);
  REQUIRE(cursor.completed(5000).has_value());
  CHECK(cursor.completed(0).error().code == errc::truncated_file);
  CHECK(cursor.reached_offset() == begin + 5000);
}

TEST_CASE("io_cursor: EINTR and EAGAIN ask for the same step again") {
  for (const int error_number : {EINTR, EAGAIN}) {
    io_cursor cursor = read_of(2 * block, 2 * block, block);
    auto next = cursor.completed(-error_number);
    REQUIRE(next.has_value());
    CHECK(*next == step{begin, 0, 2 * block});
    REQUIRE(cursor.completed(block).has_value());
    next = cursor.completed(-error_number);
    REQUIRE(next.has_value());
    CHECK(*next == step{begin + block, block, block});
    CHECK(cursor.retries() == 2);
    CHECK(cursor.short_transfers() == 1);
    CHECK(is_complete(cursor.completed(block)));
  }
}

TEST_CASE("io_cursor: fails after too many EAGAIN without progress") {
  io_cursor cursor = read_of(block, block, block);
  for (unsigned i = 0; i < io_cursor::retries_max; ++i) {
    REQUIRE(cursor.completed(i % 2 == 0 ? -EAGAIN : -EINTR).has_value());
  }
  const auto next = cursor.completed(-EAGAIN);
  REQUIRE_FALSE(next.has_value());
  CHECK(next.error().code == system_code(EAGAIN));
  CHECK(cursor.retries() == io_cursor::retries_max);
}

TEST_CASE("io_cursor: progress resets the count of retries") {
  io_cursor cursor = read_of(2 * block, 2 * block, block);
  for (int round = 0; round < 2; ++round) {
    for (unsigned i = 0; i < io_cursor::retries_max; ++i) {
      REQUIRE(cursor.completed(-EAGAIN).has_value());
    }
    REQUIRE(cursor.completed(block).has_value());
  }
  CHECK(cursor.retries() == 2 * io_cursor::retries_max);
}

TEST_CASE("io_cursor: any other error ends the read and keeps its number") {
  for (const int error_number : {EIO, EINVAL, EBADF, ENOMEM, EFAULT, ECANCELED}) {
    io_cursor cursor = read_of(2 * block, 2 * block, block);
    REQUIRE(cursor.completed(block).has_value());
    const auto next = cursor.completed(-error_number);
    REQUIRE_FALSE(next.has_value());
    CHECK(next.error().code == system_code(error_number));
    CHECK(cursor.reached_offset() == begin + block);
  }
}

TEST_CASE("io_cursor: offsets past 4 GiB stay whole") {
  io_cursor cursor = io_cursor::read(std::uint64_t{1} << 40, 2 * block, 2 * block, block);
  const auto next = cursor.completed(block);
  REQUIRE(next.has_value());
  CHECK(*next == step{(std::uint64_t{1} << 40) + block, block, block});
  CHECK(cursor.reached_offset() == (std::uint64_t{1} << 40) + block);
}

TEST_CASE("io_cursor: a write that is taken whole is complete") {
  CHECK(is_complete(write_of(2 * block, block).completed(2 * block)));
}

TEST_CASE("io_cursor: a short direct write resumes at a whole unit") {
  // 5,000 bytes are one unit of 4,096 bytes, and 904 bytes that are written again.
  io_cursor cursor = write_of(2 * block, block);
  CHECK(**cursor.completed(5000) == step{begin + block, block, block});
  CHECK(is_complete(cursor.completed(block)));
}

TEST_CASE("io_cursor: a short buffered write resumes at the byte that it reached") {
  io_cursor cursor = write_of(2 * block, 1);
  CHECK(**cursor.completed(5000) == step{begin + 5000, 5000, 2 * block - 5000});
  CHECK(is_complete(cursor.completed(2 * block - 5000)));
}

TEST_CASE("io_cursor: two writes in a row without a whole unit fail, because a third would too") {
  io_cursor cursor = write_of(2 * block, block);
  CHECK(**cursor.completed(100) == step{begin, 0, 2 * block});
  const auto second = cursor.completed(0);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code.value() == EIO);
}

TEST_CASE("io_cursor: an interrupted write does not count as a write without a whole unit") {
  io_cursor cursor = write_of(block, block);
  REQUIRE(cursor.completed(-EINTR).has_value());
  REQUIRE(cursor.completed(0).has_value());
  REQUIRE(cursor.completed(-EAGAIN).has_value());
  CHECK(is_complete(cursor.completed(block)));
}

TEST_CASE("io_cursor: progress between two writes without a unit resets the count") {
  io_cursor cursor = write_of(3 * block, block);
  CHECK(**cursor.completed(0) == step{begin, 0, 3 * block});
  CHECK(**cursor.completed(block) == step{begin + block, block, 2 * block});
  CHECK(**cursor.completed(0) == step{begin + block, block, 2 * block});
  CHECK(is_complete(cursor.completed(2 * block)));
}

TEST_CASE("io_cursor: EINTR and EAGAIN repeat a write, up to a bound") {
  io_cursor cursor = write_of(block, block);
  for (unsigned i = 0; i < io_cursor::retries_max; ++i) {
    REQUIRE(cursor.completed(i % 2 == 0 ? -EINTR : -EAGAIN).has_value());
  }
  const auto last = cursor.completed(-EAGAIN);
  REQUIRE_FALSE(last.has_value());
  CHECK(last.error().code.value() == EAGAIN);
}

TEST_CASE("io_cursor: any other errno fails a write at once") {
  const auto outcome = write_of(block, block).completed(-ENOSPC);
  REQUIRE_FALSE(outcome.has_value());
  CHECK(outcome.error().code.value() == ENOSPC);
}
