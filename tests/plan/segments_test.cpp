// SPDX-License-Identifier: Apache-2.0
#include "plan/segments.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace ringload;

namespace {

stored_item item_at(std::uint64_t begin, std::uint64_t end) {
  stored_item out;
  out.begin = begin;
  out.end = end;
  return out;
}

result<file_segments> segments_of_all(const std::vector<stored_item>& items, const plan& p,
                                      std::uint64_t rows = rows_max) {
  constexpr std::uint64_t slot_bytes = 1U << 20;
  return segments_of(0, static_cast<std::uint32_t>(items.size()), items, p, slot_bytes, rows,
                     nullptr);
}

}  // namespace

TEST_CASE("segments: items that unstaged reads fetch are left out, their ends are not") {
  std::vector<stored_item> items = {item_at(0, 100'000), item_at(4096, 98'304)};
  items[0].hole_begin = 4096;
  items[0].hole_end = 98'304;
  items[1].unstaged = true;
  const auto found = segments_of_all(items, {});
  REQUIRE(found.has_value());
  REQUIRE(found->segments.size() == 2);
  CHECK(found->segments[0].end == 4096);
  CHECK(found->segments[1].begin == 98'304);
}

TEST_CASE("segments: a stream is fetched once, as a chain if it is longer than a slot") {
  std::vector<stored_item> items = {item_at(0, 1000), item_at(0, 1000), item_at(4096, 2U << 20)};
  plan p;
  p.parts.resize(3);
  for (stored_item& item : items) item.stream = 0;
  items[0].first_of_stream = items[2].first_of_stream = true;
  p.parts[0].stream = p.parts[1].stream = 0;
  p.parts[2].stream = 1;
  const auto found = segments_of_all(items, p);
  REQUIRE(found.has_value());
  REQUIRE(found->segments.size() == 1);
  CHECK(found->segments[0].is_stream);
  CHECK(found->chains == std::vector<std::uint32_t>{1});
}

TEST_CASE("segments: rows that lie far apart are segments of their own, up to a limit") {
  plan p;
  p.maps.resize(1);
  p.maps[0].rank = 1;
  p.maps[0].element_bytes = 4;
  p.maps[0].dimensions[0] = {3, 1U << 20, 4};
  std::vector<stored_item> items = {item_at(0, (2U << 20) + 4)};
  items[0].map = 0;
  const auto found = segments_of_all(items, p);
  REQUIRE(found.has_value());
  REQUIRE(found->segments.size() == 3);
  CHECK(found->segments[1].begin == 1U << 20);
  CHECK(found->segments[1].end == (1U << 20) + 4);
  CHECK(segments_of_all(items, p, 2).error().code == errc::memory_exceeded);
}
