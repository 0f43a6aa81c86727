// SPDX-License-Identifier: Apache-2.0
#include "remote/cache/range_set.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using namespace ringload;
using namespace ringload::remote_http;

namespace {

std::string ranges_text(std::initializer_list<byte_range> ranges, std::uint64_t bytes) {
  range_set set(bytes);
  for (const byte_range& each : ranges) set.add(each);
  return set.to_text();
}

}  // namespace

TEST_CASE("range_set: ranges that touch or overlap become one") {
  CHECK(ranges_text({{0, 10}, {20, 30}}, 100) == "100\n0 10\n20 30\n");
  CHECK(ranges_text({{20, 30}, {0, 10}, {10, 20}}, 100) == "100\n0 30\n");
  CHECK(ranges_text({{0, 50}, {10, 20}}, 100) == "100\n0 50\n");
  CHECK(ranges_text({{10, 20}, {30, 40}, {0, 100}}, 100) == "100\n0 100\n");
  CHECK(ranges_text({{5, 5}}, 100) == "100\n");
}

TEST_CASE("range_set: it agrees with a set of bytes, whatever is added") {
  constexpr std::uint64_t bytes = 64;
  std::uint64_t state = 1;
  const auto next = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  };
  for (int round = 0; round < 200; ++round) {
    range_set set(bytes);
    std::set<std::uint64_t> reference;
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t begin = next(bytes);
      const std::uint64_t end = begin + next(bytes - begin + 1);
      set.add({begin, end});
      for (std::uint64_t at = begin; at < end; ++at) reference.insert(at);
    }
    std::uint64_t prefix = 0;
    while (reference.contains(prefix)) ++prefix;
    CHECK(set.prefix_bytes() == prefix);
    CHECK(set.missing_bytes() == bytes - reference.size());
    for (std::uint64_t at = 0; at < bytes; ++at) {
      CHECK(set.has({at, at + 1}) == reference.contains(at));
    }
    std::uint64_t missing = 0;
    for (const byte_range& each : set.missing()) missing += each.end - each.begin;
    CHECK(missing == set.missing_bytes());
    const std::uint64_t part_begin = next(bytes);
    const std::uint64_t part_end = part_begin + next(bytes - part_begin + 1);
    std::set<std::uint64_t> missing_in_part;
    for (const byte_range& each : set.missing_in({part_begin, part_end})) {
      CHECK(each.begin < each.end);
      for (std::uint64_t at = each.begin; at < each.end; ++at) missing_in_part.insert(at);
    }
    for (std::uint64_t at = 0; at < bytes; ++at) {
      const bool inside = at >= part_begin && at < part_end;
      CHECK(missing_in_part.contains(at) == (inside && !reference.contains(at)));
    }
    CHECK(range_set::from_text(set.to_text(), bytes)->to_text() == set.to_text());
  }
}

TEST_CASE("range_set: a text that is none, or of another file, is refused") {
  CHECK(range_set::from_text("100\n0 10\n", 100)->prefix_bytes() == 10);
  for (const std::string_view text :
       {"", "100", "99\n0 10\n", "100\n0 101\n", "100\n10 10\n", "100\n20 10\n", "100\n0 10",
        "100\n-1 10\n", "100\nx 10\n", "100\n0  10\n", "100\n0 10\nrest"}) {
    CHECK(!range_set::from_text(text, 100).has_value());
  }
}
