// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/scatter_plan.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace ringload;
using cuda::slot_range;
using cuda::transfer;

namespace {

constexpr std::uint32_t large = cuda::call_worth_bytes;
constexpr conversion to_bf16 = {float_type::f32, float_type::bf16};

copy_op copy(std::uint32_t slot_offset, std::uint32_t bytes, conversion as = {}) {
  copy_op one = {};
  one.slot_offset = slot_offset;
  one.bytes = bytes;
  one.cast = as;
  return one;
}

// Only the address of the memory is used.
transfer planned(const std::vector<copy_op>& copies, bool has_kernels = true) {
  alignas(16) std::byte memory[1] = {};
  std::byte* const destinations[] = {memory};
  transfer how;
  cuda::plan_transfer(copies, destinations, has_kernels, how);
  return how;
}

std::vector<std::uint32_t> offsets(const std::vector<copy_op>& of) {
  std::vector<std::uint32_t> all;
  for (const copy_op& one : of) all.push_back(one.slot_offset);
  return all;
}

using at = std::vector<std::uint32_t>;
using ranges = std::vector<slot_range>;

}  // namespace

TEST_CASE("transfer: a large copy goes directly, and so do a few small ones") {
  const transfer how = planned({copy(0, large), copy(large, 10), copy(large + 10, 10)});
  CHECK(offsets(how.direct) == at{0, large, large + 10});
  CHECK(how.scattered.empty());
  CHECK(how.staged.empty());
}

TEST_CASE("transfer: from four small copies on they share one, and the large one does not") {
  const transfer how = planned({copy(0, 10), copy(10, 20), copy(30, large), copy(large + 30, 5),
                                copy(large + 35, large - 1)});
  CHECK(offsets(how.direct) == at{30});
  CHECK(offsets(how.scattered) == at{0, 10, large + 30, large + 35});
  // The gap between them costs as much as a call.
  CHECK(how.staged == ranges{{0, 2 * large + 34}});
}

TEST_CASE(
    "transfer: without kernels, small copies have a call each, and converted ones are staged") {
  const std::vector<copy_op> copies = {copy(0, 10),
                                       copy(10, 20),
                                       copy(30, large),
                                       copy(large + 30, 5),
                                       copy(large + 36, 8, to_bf16),
                                       copy(large + 44, 5)};
  const transfer how = planned(copies, false);
  CHECK(offsets(how.direct) == at{0, 10, 30, large + 30, large + 44});
  CHECK(offsets(how.scattered) == at{large + 36});
  CHECK(how.staged == ranges{{large + 36, large + 44}});
}

TEST_CASE("transfer: a gap that is dearer than a call makes two ranges") {
  const std::uint32_t second = 40 + large + 1;
  const transfer how = planned({copy(0, 10), copy(20, 20), copy(second, 8), copy(second + 8, 8)});
  CHECK(how.staged == ranges{{0, 40}, {second, second + 16}});
  const transfer joined =
      planned({copy(0, 10), copy(20, 20), copy(second - 1, 8), copy(second + 7, 8)});
  CHECK(joined.staged == ranges{{0, second + 15}});
}

TEST_CASE("transfer: whatever is converted is scattered, large or alone") {
  const transfer how = planned({copy(0, 10), copy(12, 4 * large, to_bf16)});
  CHECK(offsets(how.direct) == at{0});
  CHECK(offsets(how.scattered) == at{12});
  CHECK(how.staged == ranges{{12, 12 + 4 * large}});
}

TEST_CASE(
    "transfer: what goes by a map, and blocks, are boxes, and staged with what is scattered") {
  copy_op mapped = copy(100, 50);
  mapped.map = 3;
  const conversion blocks = {element_kind::blocks, float_type::f16};
  const transfer how =
      planned({copy(0, 10), mapped, copy(200, 180, blocks), copy(400, 8, to_bf16)});
  CHECK(offsets(how.direct) == at{0});
  CHECK(offsets(how.scattered) == at{400});
  CHECK(offsets(how.boxed) == at{100, 200});
  CHECK(how.staged == ranges{{100, 408}});
}

TEST_CASE("transfer: a conversion whose elements land at misaligned addresses is a box") {
  copy_op odd = copy(0, 8, to_bf16);
  odd.destination_offset = 1;
  copy_op even = copy(100, 8, to_bf16);
  even.destination_offset = 2;
  copy_op bytes = copy(200, 8);
  bytes.destination_offset = 1;
  const transfer how = planned({odd, even, bytes});
  CHECK(offsets(how.boxed) == at{0});
  CHECK(offsets(how.scattered) == at{100});
  CHECK(offsets(how.direct) == at{200});
  CHECK(how.staged == ranges{{0, 108}});
}

TEST_CASE("transfer: a copy of nothing is none") {
  const transfer how = planned({copy(0, 0), copy(0, 0, to_bf16), copy(5, 1)});
  CHECK(offsets(how.direct) == at{5});
  CHECK(how.scattered.empty());
}

TEST_CASE("transfer: copies that do not stand in order are staged all the same") {
  const transfer how = planned({copy(100, 10), copy(0, 10), copy(50, 10), copy(20, 10)});
  CHECK(how.staged == ranges{{0, 110}});
}

TEST_CASE("transfer: the parts of a copy are whole elements that follow each other") {
  std::vector<cuda::copy_part> parts;
  const auto keep = [&](const cuda::copy_part& one) {
    parts.push_back(one);
    return false;
  };
  CHECK_FALSE(cuda::for_each_part<bool>(copy(8, 40, to_bf16), 16, keep));
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].slot_offset == 8);
  CHECK(parts[1].slot_offset == 24);
  CHECK(parts[1].landed_offset == 8);
  CHECK(parts[2].bytes == 8);
  CHECK(parts[2].landed_offset == 16);

  parts.clear();
  CHECK(cuda::for_each_part<bool>(copy(0, 40), 16, [&](const cuda::copy_part& one) {
    parts.push_back(one);
    return parts.size() == 2;
  }));
  CHECK(parts.size() == 2);
  CHECK(parts[1].landed_offset == 16);
}
