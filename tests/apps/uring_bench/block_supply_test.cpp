// SPDX-License-Identifier: Apache-2.0
#include "block_supply.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <vector>

namespace {

using namespace ringload::bench;
using clock_type = supply::clock;

std::vector<block> all_of(supply& from, clock_type::time_point now = clock_type::now()) {
  from.begin(now);
  std::vector<block> blocks;
  for (block one; from.next(now, one) && blocks.size() < 10'000;) blocks.push_back(one);
  return blocks;
}

cell of_blocks(std::uint64_t bytes) {
  cell what;
  what.block_bytes = bytes;
  return what;
}

}  // namespace

TEST_CASE("the warm-up runs before the measured time, and is not counted") {
  cell what = of_blocks(4096);
  what.seconds = 2;
  what.ramp_seconds = 3;
  supply from({1 << 20}, what, 0);
  const auto begin = clock_type::now();
  from.begin(begin);
  CHECK(from.counted_from() == begin + std::chrono::seconds(3));
  block one;
  CHECK(from.next(begin, one));
  CHECK(from.next(begin + std::chrono::milliseconds(4999), one));
  CHECK_FALSE(from.next(begin + std::chrono::seconds(5), one));
}

TEST_CASE("one pass reads each file's blocks in order, the last one shorter") {
  supply from({10'000, 4096, 1}, of_blocks(4096), 1);
  const auto blocks = all_of(from);
  REQUIRE(blocks.size() == 5);
  CHECK(from.blocks() == 5);
  CHECK(blocks[0].file_offset == 0);
  CHECK(blocks[2].file == 0);
  CHECK(blocks[2].file_offset == 8192);
  CHECK(blocks[2].bytes == 10'000 - 8192);
  CHECK(blocks[3].file == 1);
  CHECK(blocks[3].bytes == 4096);
  CHECK(blocks[4].file == 2);
  CHECK(blocks[4].bytes == 1);
  for (std::uint64_t i = 0; i < 5; ++i) CHECK(blocks[i].place == i);
}

TEST_CASE("a random pass reads each block once, in another order for each seed") {
  cell what = of_blocks(512);
  what.order = pattern::random;
  std::vector<std::vector<std::uint64_t>> orders;
  for (const std::uint64_t seed : {0U, 1U}) {
    what.seed = seed;
    supply from({512 * 1000, 100}, what, 1);
    std::set<std::pair<std::uint32_t, std::uint64_t>> seen;
    std::vector<std::uint64_t> order;
    for (const block& one : all_of(from)) {
      CHECK(seen.emplace(one.file, one.file_offset).second);
      order.push_back(one.file_offset);
    }
    CHECK(seen.size() == 1001);
    CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
    orders.push_back(order);
  }
  CHECK(orders[0] != orders[1]);
}

TEST_CASE("a permutation of every small size contains every number once") {
  for (std::uint64_t count = 1; count <= 130; ++count) {
    const shuffled order(count, 3);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < count; ++i) {
      CHECK(order(i) < count);
      seen.insert(order(i));
    }
    CHECK(seen.size() == count);
  }
}

TEST_CASE("passes repeat until the bytes are read") {
  cell what = of_blocks(4096);
  what.bytes_max = 4096 * 3 - 1;
  supply from({8192}, what, 0);
  const auto blocks = all_of(from);
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[2].file_offset == 0);
}

TEST_CASE("fewer bytes than the target has are read from its beginning, into as many places") {
  cell what = of_blocks(4096);
  what.bytes_max = 8192;
  supply from({1 << 20}, what, 0);
  CHECK(from.blocks() == 2);
  CHECK(all_of(from).size() == 2);
}

TEST_CASE("at the end of the time there is no further block, but always a first") {
  using namespace std::chrono_literals;
  cell what = of_blocks(4096);
  what.seconds = 1;
  supply from({1 << 20}, what, 0);
  const auto now = clock_type::now();
  from.begin(now);
  block one;
  CHECK(from.next(now + 2s, one));
  CHECK_FALSE(from.next(now + 1s, one));
  CHECK(from.next(now + 999ms, one));
}

TEST_CASE("a stopped supply hands out no block") {
  supply from({1 << 20}, of_blocks(4096), 0);
  from.stop();
  block one;
  CHECK_FALSE(from.next(clock_type::now(), one));
}

TEST_CASE("as many bytes as the files have are all blocks, the short last ones too") {
  cell what = of_blocks(4096);
  what.bytes_max = 10'000 + 5;
  supply once({10'000, 5}, what, 0);
  CHECK(all_of(once).size() == 4);
  what.bytes_max *= 2;
  supply twice({10'000, 5}, what, 0);
  CHECK(all_of(twice).size() == 8);
}
