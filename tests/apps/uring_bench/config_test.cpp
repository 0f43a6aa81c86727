// SPDX-License-Identifier: Apache-2.0
#include "config.hpp"

#include <doctest/doctest.h>

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
