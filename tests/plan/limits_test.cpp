// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "plan/make_plan.hpp"
#include "plan/planned.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t half = std::uint64_t{1} << 63;

boost::system::error_code refusal(const std::vector<wanted_tensor>& extents,
                                  const placement_rules& rules, std::uint64_t arena_bytes_max) {
  const auto made = try_plan(extents, rules, slot, arena_bytes_max);
  return made ? boost::system::error_code{} : made.error().code;
}

}  // namespace

TEST_CASE("make_plan: an arena of exactly the limit is allowed, one byte less is not") {
  const std::vector<wanted_tensor> extents = {wanted(0, 5000)};
  for (const placement_rules& rules : {host_rules(), cuda_like_rules()}) {
    const auto met = try_plan(extents, rules, slot, 8192);
    REQUIRE(met.has_value());
    CHECK(met->arena_bytes == 8192);
    const auto exceeded = try_plan(extents, rules, slot, 8191);
    REQUIRE_FALSE(exceeded.has_value());
    CHECK(exceeded.error().code == errc::memory_exceeded);
    CHECK(message_of(exceeded.error()) == "the tensors need 8,192 bytes, arena_bytes_max is 8,191");
  }
}

TEST_CASE("make_plan: the limit counts the arena of all files together") {
  const std::vector<wanted_tensor> extents = {wanted(0, 4096, 1, 0), wanted(0, 4096, 1, 1)};
  CHECK_FALSE(refusal(extents, host_rules(), 8192).failed());
  CHECK(refusal(extents, host_rules(), 4096) == errc::memory_exceeded);
}

TEST_CASE("make_plan: even nothing needs one block") {
  CHECK_FALSE(refusal({}, host_rules(), 4096).failed());
  CHECK(refusal({}, host_rules(), 4095) == errc::memory_exceeded);
}

TEST_CASE("make_plan: what is far above the limit is refused by a sum, not after a plan of it") {
  // A sparse file of 2^62 bytes would need 2^41 reads, which do not fit in any memory.
  const std::uint64_t huge = std::uint64_t{1} << 62;
  for (const placement_rules& rules : {host_rules(), cuda_like_rules()}) {
    const auto made = try_plan({wanted(0, huge)}, rules, slot, 1 << 30);
    REQUIRE_FALSE(made.has_value());
    CHECK(message_of(made.error()) ==
          "the tensors need 4,611,686,018,427,387,904 bytes, arena_bytes_max is 1,073,741,824");
  }
}

TEST_CASE("make_plan: tensors whose bytes do not add up within 64 bits are refused") {
  for (const placement_rules& rules : {host_rules(), cuda_like_rules()}) {
    const std::vector<wanted_tensor> extents = {wanted(0, half, 1, 0), wanted(0, half, 1, 1)};
    CHECK(refusal(extents, rules, mib) == errc::size_overflow);

    // With and without memory for the block that rounding may need.
    const std::uint64_t rest = half - 4096;
    CHECK(refusal({wanted(0, half, 1, 0), wanted(0, rest - 4096, 1, 1)}, rules, mib) ==
          errc::memory_exceeded);
    CHECK(refusal({wanted(0, half, 1, 0), wanted(0, rest, 1, 1)}, rules, mib) ==
          errc::size_overflow);
  }
}

TEST_CASE("make_plan: the padding before a tensor counts in the sum, too") {
  // 2^63 + 1 bytes, padding to 2^63 + 256, and then 2^63 - 256 more bytes: one byte too many.
  const std::vector<wanted_tensor> extents = {wanted(0, half + 1, 1, 0),
                                              wanted(0, half - 256, 1, 1)};
  CHECK(refusal(extents, cuda_like_rules(), mib) == errc::size_overflow);
}
