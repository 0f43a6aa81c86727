// SPDX-License-Identifier: Apache-2.0
#include "base/checked.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace ringload;

namespace {

constexpr std::uint64_t most = UINT64_MAX;

}  // namespace

TEST_CASE("checked_add: gives every sum that fits, and nothing else") {
  CHECK(checked_add(0, 0) == 0);
  CHECK(checked_add(2, 3) == 5);
  CHECK(checked_add(most, 0) == most);
  CHECK(checked_add(0, most) == most);
  CHECK(checked_add(most - 1, 1) == most);
  CHECK_FALSE(checked_add(most, 1));
  CHECK_FALSE(checked_add(1, most));
  CHECK_FALSE(checked_add(most, most));
  CHECK_FALSE(checked_add(most / 2 + 1, most / 2 + 1));
}

TEST_CASE("checked_multiply: gives every product that fits, and nothing else") {
  CHECK(checked_multiply(0, most) == 0);
  CHECK(checked_multiply(most, 0) == 0);
  CHECK(checked_multiply(most, 1) == most);
  CHECK(checked_multiply(7, 6) == 42);
  // (2^32 - 1) * (2^32 + 1) is 2^64 - 1, the largest number.
  CHECK(checked_multiply(0xFFFF'FFFF, 0x1'0000'0001) == most);
  CHECK_FALSE(checked_multiply(0x1'0000'0000, 0x1'0000'0000));
  CHECK_FALSE(checked_multiply(most, 2));
  CHECK_FALSE(checked_multiply(most, most));
}

TEST_CASE("round_down: goes to the multiple at or below") {
  CHECK(round_down<std::uint64_t>(0, 4096) == 0);
  CHECK(round_down<std::uint64_t>(4095, 4096) == 0);
  CHECK(round_down<std::uint64_t>(4096, 4096) == 4096);
  CHECK(round_down<std::uint64_t>(4097, 4096) == 4096);
  CHECK(round_down<std::uint64_t>(12345, 1) == 12345);
  CHECK(round_down<std::uint64_t>(most, 4096) == most - 4095);
}

TEST_CASE("round_up: goes to the multiple at or above") {
  CHECK(round_up<std::uint64_t>(0, 4096) == 0);
  CHECK(round_up<std::uint64_t>(1, 4096) == 4096);
  CHECK(round_up<std::uint64_t>(4096, 4096) == 4096);
  CHECK(round_up<std::uint64_t>(4097, 4096) == 8192);
  CHECK(round_up<std::uint64_t>(12345, 1) == 12345);
  // The largest multiple. For larger values, the caller must check before the call.
  CHECK(round_up<std::uint64_t>(most - 4095, 4096) == most - 4095);
  CHECK(round_up<std::uint32_t>(0xFFFF'EFFF, 4096) == 0xFFFF'F000);
}
