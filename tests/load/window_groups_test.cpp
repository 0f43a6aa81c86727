// SPDX-License-Identifier: Apache-2.0
#include "load/window_groups.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace ringload;
using detail::make_window_groups;
using detail::window_group;

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t slot = 4 * mib;

result<std::vector<window_group>> groups_of(const std::vector<std::uint64_t>& bytes,
                                            std::uint64_t window_bytes) {
  std::uint32_t failed_tensor = 0;
  return make_window_groups(bytes, window_bytes, page, failed_tensor, slot);
}

}  // namespace

TEST_CASE("window_groups: the groups follow each other and have every tensor once") {
  const std::vector<std::uint64_t> bytes(100, 100'000);
  const auto groups = groups_of(bytes, 16 * mib);
  REQUIRE(groups.has_value());
  std::uint32_t next = 0;
  for (const window_group& group : *groups) {
    CHECK(group.first == next);
    CHECK(group.last > group.first);
    // A sixteenth of the window, so that many groups are in flight.
    CHECK(group.bytes <= mib);
    CHECK(group.bytes % page == 0);
    CHECK(group.bytes >= (group.last - group.first) * 100'000);
    next = group.last;
  }
  CHECK(next == 100);
}

TEST_CASE("window_groups: a tensor larger than a group is a group of its own") {
  const auto groups = groups_of({1000, 5 * mib, 1000}, 16 * mib);
  REQUIRE(groups.has_value());
  REQUIRE(groups->size() == 3);
  CHECK((*groups)[1].first == 1);
  CHECK((*groups)[1].last == 2);
  CHECK((*groups)[1].bytes >= 5 * mib);
}

TEST_CASE("window_groups: a tensor that does not fit into the window is named") {
  std::uint32_t failed_tensor = 0;
  const auto groups = make_window_groups({1000, 2 * mib}, mib, page, failed_tensor, slot);
  REQUIRE_FALSE(groups.has_value());
  CHECK(groups.error().code == errc::memory_exceeded);
  CHECK(failed_tensor == 1);
}

TEST_CASE("window_groups: sizes that would overflow are refused") {
  std::uint32_t failed_tensor = 0;
  const std::uint64_t most = ~std::uint64_t{0};
  CHECK_FALSE(make_window_groups({most - 10}, most, page, failed_tensor, slot).has_value());
  CHECK_FALSE(make_window_groups({1, most, most}, most, page, failed_tensor, slot).has_value());
  CHECK(failed_tensor == 1);
}

TEST_CASE("window_groups: no tensors are no groups") { CHECK(groups_of({}, 16 * mib)->empty()); }

TEST_CASE("window_page_bytes: small pages only if the loader neither caches nor reserves memory") {
  loader_options options;
  options.cached_bytes = 0;
  CHECK(detail::window_page_bytes(host(), options) == 4096);
  options.cached_bytes = 1;
  CHECK(detail::window_page_bytes(host(), options) == 2 * mib);
  options.cached_bytes = 0;
  options.huge_pages = huge_pages::reserved;
  CHECK(detail::window_page_bytes(host(), options) == 2 * mib);
}
