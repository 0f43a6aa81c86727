// SPDX-License-Identifier: Apache-2.0
#include "config.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "resource_usage.hpp"
#include "target.hpp"

using namespace ringload::bench;
using ringload::loader_options;

namespace {

constexpr std::uint64_t mib = 1 << 20;

std::uint32_t depth_of(std::uint32_t slots, std::uint64_t slot_bytes,
                       std::uint64_t bytes_in_flight) {
  loader_options options;
  options.slots = slots;
  options.slot_bytes = slot_bytes;
  options.bytes_in_flight = bytes_in_flight;
  return cell_of(options).depth;
}

}  // namespace

TEST_CASE("a cell of limits: the reads that a loader with them begins with") {
  CHECK(cell_of(loader_options()).block_bytes == loader_options().slot_bytes);
  CHECK(cell_of(loader_options()).bytes_in_flight() == ringload::bytes_in_flight_at_first);
  CHECK(depth_of(16, 4 * mib, 8 * mib) == 2);
  CHECK(depth_of(16, 4 * mib, 11 * mib) == 2);
}

TEST_CASE("a cell of limits: one read at least, and no more than there are slots") {
  CHECK(depth_of(16, 4 * mib, 1) == 1);
  CHECK(depth_of(2, 4 * mib, 32 * mib) == 2);
  CHECK(depth_of(2, 4 * mib, 0) == 2);
  CHECK(depth_of(1, 64 * mib, 0) == 1);
}

TEST_CASE("a cell of limits: a tuned queue depth begins with two slots at least") {
  CHECK(depth_of(16, 64 * mib, 0) == 2);
  CHECK(depth_of(16, 32 * mib, 0) == 2);
  CHECK(depth_of(16, 16 * mib, 0) == 2);
  CHECK(depth_of(16, 8 * mib, 0) == 4);
}

TEST_CASE("a cold file has no cached byte, and a cold block device may have 1 % of them") {
  CHECK(has_state(cache_state::cold, 0, false));
  CHECK_FALSE(has_state(cache_state::cold, 0.0001, false));
  CHECK(has_state(cache_state::cold, 0.0001, true));
  CHECK(has_state(cache_state::cold, 0.01, true));
  CHECK_FALSE(has_state(cache_state::cold, 0.011, true));
  CHECK(has_state(cache_state::warm, 0.998, true));
  CHECK_FALSE(has_state(cache_state::warm, 0.9, false));
  CHECK(has_state(cache_state::as_is, 0.5, false));
}

TEST_CASE("a share of the page cache that is not zero is not shown as zero") {
  CHECK(percent_text(0) == "0 %");
  CHECK(percent_text(0.00004) == "0.004 %");
  CHECK(percent_text(0.5) == "50 %");
}

TEST_CASE("other processes cannot use more processors than the machine has") {
  const auto processors = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  CHECK(foreign_processors({1, 1, 2.5}, 1) == doctest::Approx(0.5));
  CHECK(foreign_processors({1, 1, 1}, 1) == 0);
  CHECK(foreign_processors({0, 0, 1000 * processors}, 1) == processors);
}

TEST_CASE("an interval of a few clock ticks does not tell what other processes used") {
  const double tick = 1 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  CHECK(foreign_processors({0, 0, tick}, 2 * tick) == 0);
  CHECK(foreign_processors({0, 0, tick}, 10 * tick) == doctest::Approx(0.1));
}
