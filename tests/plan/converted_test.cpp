// SPDX-License-Identifier: Apache-2.0

// Plans of tensors that are converted during a load: always staged, in whole elements, with a
// separate copy for each tensor.

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "plan/planned.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr conversion f32_to_bf16 = {float_type::f32, float_type::bf16};
constexpr conversion fp8_to_f32 = {float_type::f8_e4m3fn, float_type::f32};

wanted_tensor converted(std::uint64_t offset, std::uint64_t bytes, conversion as) {
  return {0, as.to_bytes(), offset, bytes, as};
}

}  // namespace

TEST_CASE("plan: what is converted is staged, and takes the room of what it becomes") {
  const plan p = planned(
      {wanted(4096, 400, 4), converted(8192, 400, f32_to_bf16), converted(8592, 10, fp8_to_f32)},
      host_rules());
  CHECK(part_of(p, 0).unstaged);
  CHECK_FALSE(part_of(p, 1).unstaged);
  CHECK(p.tensors[1].cast == f32_to_bf16);
  // After the unstaged block 200 bytes, then 40.
  CHECK(p.tensors[1].destination_offset == 4096);
  CHECK(p.tensors[2].destination_offset == 4296);
  CHECK(p.reads.size() == 2);
  CHECK(copies_of(p, 1) == std::vector<copied>{{0, 4096, 400}, {400, 4296, 10}});
  CHECK(p.copies[1].cast == fp8_to_f32);
}

TEST_CASE("plan: copies that are converted are joined with no other") {
  placement_rules rules;
  const plan p =
      planned({wanted(0, 256, 4), converted(256, 256, {float_type::f16, float_type::bf16}),
               wanted(512, 256, 4)},
              rules);
  CHECK(copies_of(p, 0) == std::vector<copied>{{0, 0, 256}, {256, 256, 256}, {512, 512, 256}});
}

TEST_CASE("plan: an element across a slot's border is read with the next slot, a block earlier") {
  // The tensor begins at byte 2, so the last 2 bytes of the slot belong to an element that ends in
  // the next slot. The next read therefore begins one block earlier.
  const plan p = planned({converted(2, slot + 100, f32_to_bf16)}, cuda_like_rules());
  CHECK(asked_of(p) == std::vector<asked>{{0, read_op::staged, slot, slot - 2},
                                          {slot - block_bytes, read_op::staged, 2 * block_bytes,
                                           block_bytes + 102}});
  CHECK(copies_of(p, 0) == std::vector<copied>{{2, 0, slot - 4}});
  CHECK(copies_of(p, 1) == std::vector<copied>{{block_bytes - 2, (slot - 4) / 2, 104}});
}

TEST_CASE("plan: a tensor whose first element does not fit any more begins a read of its own") {
  const plan p =
      planned({wanted(0, slot - 2), converted(slot - 2, 8, f32_to_bf16)}, cuda_like_rules());
  REQUIRE(p.reads.size() == 2);
  CHECK(copies_of(p, 0) == std::vector<copied>{{0, 0, slot - 2}});
  CHECK(copies_of(p, 1) == std::vector<copied>{{block_bytes - 2, slot, 8}});
  CHECK(part_of(p, 1).reads_begin == 1);
  CHECK(part_of(p, 1).reads_end == 2);
}

TEST_CASE("plan: what grows past 64 bits is refused") {
  const auto made =
      try_plan({converted(0, no_limit / 2, fp8_to_f32)}, cuda_like_rules(), slot, no_limit);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == errc::size_overflow);
}

TEST_CASE("plan: each element is converted once, and comes from its place to its place") {
  std::mt19937 random(3);
  constexpr conversion kinds[] = {{}, f32_to_bf16, fp8_to_f32, {float_type::bf16, float_type::f16}};
  constexpr std::uint64_t small_slot = 2 * block_bytes;
  for (unsigned round = 0; round < 300; ++round) {
    std::vector<wanted_tensor> all;
    std::uint64_t at = random() % 9000;
    for (unsigned i = 0; i < 20; ++i) {
      const conversion as = kinds[random() % 4];
      const std::uint64_t bytes = random() % 7000 * as.from_bytes();
      all.push_back({0, as.needed() ? as.to_bytes() : 1, at, bytes, as});
      at += bytes + (random() % 4 == 0 ? random() % 100'000 : 0);
    }
    const plan p = planned(all, round % 2 == 0 ? host_rules() : cuda_like_rules(), small_slot);
    for (std::size_t t = 0; t < all.size(); ++t) {
      const conversion as = all[t].cast;
      if (!as.needed()) continue;
      const placement& lies = p.tensors[t];
      std::uint64_t reached = 0;  // In bytes of the file.
      for (std::uint32_t r = part_of(p, t).reads_begin; r < part_of(p, t).reads_end; ++r) {
        const read_op& read = p.reads[r];
        for (std::uint32_t c = read.copies_begin; c < read.copies_end; ++c) {
          const copy_op& copy = p.copies[c];
          const std::uint64_t from = read.file_offset + copy.slot_offset;
          if (from < all[t].offset || from >= all[t].offset + all[t].bytes) continue;
          REQUIRE(copy.cast == as);
          REQUIRE(from == all[t].offset + reached);
          REQUIRE(copy.bytes % as.from_bytes() == 0);
          REQUIRE(copy.slot_offset + copy.bytes <= read.bytes_needed);
          REQUIRE(copy.destination_offset ==
                  lies.destination_offset + reached / as.from_bytes() * as.to_bytes());
          reached += copy.bytes;
        }
      }
      REQUIRE(reached == all[t].bytes);
    }
  }
}
