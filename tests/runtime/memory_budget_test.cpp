// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_budget.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace ringload;
using namespace ringload::detail;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

std::uint32_t slots_with(std::optional<std::uint64_t> available) {
  loader_options options;
  options.slots = 16;
  return limit_slots(options, available).slots;
}

}  // namespace

TEST_CASE("memory_budget: slots take an eighth of the memory, and at least two remain") {
  CHECK(slots_with(std::nullopt) == 16);
  CHECK(slots_with(std::numeric_limits<std::uint64_t>::max()) == 16);
  CHECK(slots_with(512 * mib) == 16);
  CHECK(slots_with(512 * mib - 1) == 15);
  CHECK(slots_with(256 * mib) == 8);
  CHECK(slots_with(16 * mib) == 2);
  CHECK(slots_with(0) == 2);
}

TEST_CASE("memory_budget: a single slot stays a single slot") {
  loader_options options;
  options.slots = 1;
  CHECK(limit_slots(options, 256 * mib).slots == 1);
  CHECK(limit_slots(options, 0).slots == 1);
}

TEST_CASE("memory_budget: a window takes three quarters of the memory") {
  CHECK(limit_window(192 * mib, std::nullopt) == 192 * mib);
  CHECK(limit_window(192 * mib, 1024 * mib) == 192 * mib);
  CHECK(limit_window(192 * mib, 128 * mib) == 96 * mib);
  CHECK(limit_window(192 * mib, 0) == 0);
}

TEST_CASE("memory_budget: the page cache has the memory that the tensors leave") {
  CHECK(page_cache_has_room(100 * mib, 100 * mib, std::nullopt));
  CHECK(page_cache_has_room(100 * mib, 100 * mib, 200 * mib));
  CHECK_FALSE(page_cache_has_room(100 * mib, 100 * mib, 200 * mib - 1));
  CHECK_FALSE(page_cache_has_room(0, 100 * mib, 50 * mib));
}
