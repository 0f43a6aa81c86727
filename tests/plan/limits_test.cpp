// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "plan/make_plan.hpp"
#include "plan/planned.hpp"
#include "plan/staged_reads.hpp"

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

TEST_CASE("make_plan: a plan without tensors, such as that of an open, is within any limit") {
  CHECK_FALSE(refusal({}, host_rules(), 4096).failed());
  CHECK_FALSE(refusal({}, host_rules(), 1).failed());
}

TEST_CASE("make_plan: even an empty tensor needs one block") {
  CHECK_FALSE(refusal({wanted(0, 0)}, host_rules(), 4096).failed());
  CHECK(refusal({wanted(0, 0)}, host_rules(), 4095) == errc::memory_exceeded);
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

TEST_CASE(
    "make_plan: a short tensor with a stored stream of 2^56 bytes is refused without a plan") {
  const std::vector<std::uint64_t> shape = {16 * kib};
  const std::vector<std::uint64_t> origin = {0};
  const std::vector<std::uint64_t> strides = {1};
  std::vector<wanted_stream> streams = {
      {wanted_stream::kind::decoded, 0, 64, std::uint64_t{1} << 56, 16 * kib}};
  const std::vector<stored_box> pieces = {{0, 0, origin, shape, strides}};
  tensor_form form;
  form.shape = shape;
  form.has_pieces = true;
  form.pieces = pieces;
  const std::vector<wanted_tensor> tensors = {wanted(0, 4096, 1, 1),
                                              {0, 1, 0, 16 * kib, {}, &form}};
  plan_input all;
  all.tensors = tensors;
  all.streams = streams;
  std::uint32_t failed_tensor = 0;
  const auto refused = make_plan(all, host_rules(), {slot}, &failed_tensor);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::memory_exceeded);
  CHECK(failed_tensor == 1);
  streams[0].bytes = 100 * slot;
  CHECK(make_plan(all, host_rules(), {slot}).value().reads.size() == 102);
}

TEST_CASE("make_plan: the full reads of all chains are counted, and memory raises their limit") {
  constexpr std::uint64_t slot_bytes = 64 * kib;
  const std::uint64_t long_stream = std::uint64_t{1} << 40;
  CHECK(chain_reads_max(0, slot_bytes) == extra_chain_reads);
  CHECK(chain_reads_max(long_stream / 8, slot_bytes) > long_stream / slot_bytes);

  plan p;
  p.streams.resize(3);
  std::uint64_t chain_reads = 0;
  const auto add = [&](std::uint32_t stream, std::uint64_t offset, std::uint64_t bytes) {
    const wanted_stream stored = {wanted_stream::kind::decoded, 0, offset, bytes, 1};
    return add_chain_reads(stream, stored, slot_bytes, 5, chain_reads, p).has_value();
  };
  CHECK(add(0, 64, 4 * slot_bytes));
  CHECK(chain_reads == 3);
  CHECK(p.reads.size() == 5);
  CHECK_FALSE(add(1, 0, 4 * slot_bytes));
  CHECK(chain_reads == 3);
  CHECK(p.reads.size() == 5);
  CHECK(add(1, 0, 4 * slot_bytes - 1));
  CHECK(add(2, 0, 2 * slot_bytes - 1));  // Without a full read after the first.
  CHECK(chain_reads == 5);
  CHECK(p.reads.size() == 11);
}
