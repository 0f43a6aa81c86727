// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "plan/make_plan.hpp"
#include "plan/planned.hpp"

using namespace ringload;
using namespace ringload::testing;

TEST_CASE("make_plan: an unstaged tensor keeps its distance from the beginning of a block") {
  // The tensor bytes [8200, 8300) begin at byte 8 of the third block of the file.
  const plan p = planned({wanted(8200, 100, 8)}, host_rules());
  CHECK(asked_of(p) == std::vector<asked>{{8192, 0, 4096, 108}});
  CHECK(p.copies.empty());
  REQUIRE(p.tensors.size() == 1);
  CHECK(part_of(p, 0).unstaged);
  CHECK(p.tensors[0].destination_offset == 8);
  CHECK(part_of(p, 0).reads_begin == 0);
  CHECK(part_of(p, 0).reads_end == 1);
  CHECK(p.arena_bytes == 4096);
}

TEST_CASE("make_plan: an unstaged read asks for whole blocks and needs the wanted bytes alone") {
  CHECK(asked_of(planned({wanted(0, 4096)}, host_rules())) ==
        std::vector<asked>{{0, 0, 4096, 4096}});
  CHECK(asked_of(planned({wanted(0, 4097)}, host_rules())) ==
        std::vector<asked>{{0, 0, 8192, 4097}});
  CHECK(asked_of(planned({wanted(4095, 2)}, host_rules())) ==
        std::vector<asked>{{0, 0, 8192, 4097}});
}

TEST_CASE("make_plan: an unstaged run is cut where the arena crosses a multiple of the slot size") {
  // The 1 MiB of the first file is at the beginning of the arena, so the 5 MiB of the second file
  // begin at 1 MiB.
  const plan p = planned({wanted(0, mib), wanted(8192, 5 * mib, 1, 1)}, host_rules());
  CHECK(asked_of(p) == std::vector<asked>{
                           {0, 0, mib, mib},
                           {8192, mib, mib, mib},
                           {8192 + mib, 2 * mib, 2 * mib, 2 * mib},
                           {8192 + 3 * mib, 4 * mib, 2 * mib, 2 * mib},
                       });
  CHECK(p.reads[0].file == 0);
  CHECK(p.reads[3].file == 1);
  CHECK(part_of(p, 1).reads_begin == 1);
  CHECK(part_of(p, 1).reads_end == 4);
  CHECK(p.arena_bytes == 6 * mib);
}

TEST_CASE("make_plan: a run that ends on a cut makes no empty read") {
  CHECK(planned({wanted(0, 2 * slot)}, host_rules()).reads.size() == 2);
  const plan p = planned({wanted(0, 2 * slot + 1)}, host_rules());
  CHECK(asked_of(p).back() == asked{2 * slot, 2 * slot, 4096, 1});
}

TEST_CASE("make_plan: unstaged tensors nearer than 64 KiB are one run, others are two") {
  SUBCASE("one byte less than 64 KiB between them is read through") {
    const plan p = planned({wanted(0, 100), wanted(100 + 64 * kib - 1, 50)}, host_rules());
    CHECK(asked_of(p) == std::vector<asked>{{0, 0, 17 * 4096, 100 + 64 * kib - 1 + 50}});
    CHECK(p.tensors[1].destination_offset == 100 + 64 * kib - 1);
  }
  SUBCASE("64 KiB between them are not") {
    const plan p = planned({wanted(0, 100), wanted(100 + 64 * kib, 50)}, host_rules());
    CHECK(asked_of(p) == std::vector<asked>{{0, 0, 4096, 100}, {64 * kib, 4096, 4096, 150}});
    CHECK(p.tensors[1].destination_offset == 4096 + 100);
    CHECK(p.arena_bytes == 8192);
  }
}

TEST_CASE("make_plan: a long run begins on a multiple of the slot size, a shorter one is packed") {
  const std::uint64_t far = 200 * mib;
  const std::vector<wanted_tensor> long_run = {wanted(0, 100), wanted(far, 64 * mib)};
  CHECK(planned(long_run, host_rules()).tensors[1].destination_offset == slot);
  CHECK(planned(long_run, host_rules()).arena_bytes == slot + 64 * mib);

  const std::vector<wanted_tensor> shorter = {wanted(0, 100), wanted(far, 64 * mib - 4096)};
  CHECK(planned(shorter, host_rules()).tensors[1].destination_offset == 4096);

  placement_rules rules = host_rules();
  rules.aligned_run_bytes = 64 * mib - 4096;
  CHECK(planned(shorter, rules).tensors[1].destination_offset == slot);
}

TEST_CASE("make_plan: many tensors come with one read") {
  std::vector<wanted_tensor> extents;
  for (std::uint64_t i = 0; i < 1000; ++i) extents.push_back(wanted(4096 + 64 * i, 64, 8));
  const plan p = planned(extents, host_rules());
  CHECK(asked_of(p) == std::vector<asked>{{4096, 0, 65'536, 64'000}});
  CHECK(p.reads[0].parts_begin == 0);
  CHECK(p.reads[0].parts_end == 1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    REQUIRE(p.tensors[i].destination_offset == 64 * i);
    REQUIRE(part_of(p, i).reads_begin == 0);
    REQUIRE(part_of(p, i).reads_end == 1);
  }
}

TEST_CASE("make_plan: each unstaged read names the tensors that it feeds") {
  // a: all of the first slot and half of the second; b: the rest of the second; c: in the third.
  const plan p =
      planned({wanted(0, 3 * mib), wanted(3 * mib, mib), wanted(4 * mib, 10)}, host_rules());
  REQUIRE(p.reads.size() == 3);
  CHECK(p.reads[0].parts_begin == 0);
  CHECK(p.reads[0].parts_end == 1);
  CHECK(p.reads[1].parts_begin == 0);
  CHECK(p.reads[1].parts_end == 2);
  CHECK(p.reads[2].parts_begin == 2);
  CHECK(p.reads[2].parts_end == 3);
}

TEST_CASE("make_plan: a tensor that is misaligned for its type is staged, the others are not") {
  // b has 4-byte elements at an odd offset. A tensor of bytes would need no shift.
  const std::vector<wanted_tensor> extents = {wanted(8, 8, 8), wanted(17, 40, 4), wanted(64, 8, 8)};
  const plan p = planned(extents, host_rules());
  CHECK(asked_of(p) == std::vector<asked>{{0, 0, 4096, 72}, {0, read_op::staged, 4096, 57}});
  CHECK(copies_of(p, 1) == std::vector<copied>{{17, 4096, 40}});
  CHECK(part_of(p, 0).unstaged);
  CHECK_FALSE(part_of(p, 1).unstaged);
  CHECK(p.tensors[1].destination_offset == 4096);
  CHECK(part_of(p, 1).reads_begin == 1);
  CHECK(part_of(p, 1).reads_end == 2);
  CHECK(part_of(p, 2).unstaged);

  CHECK(part_of(planned({wanted(17, 40, 1)}, host_rules()), 0).unstaged);
  CHECK(part_of(planned({wanted(18, 40, 2)}, host_rules()), 0).unstaged);
  CHECK_FALSE(part_of(planned({wanted(18, 40, 4)}, host_rules()), 0).unstaged);
  CHECK_FALSE(part_of(planned({wanted(20, 40, 8)}, host_rules()), 0).unstaged);
}

TEST_CASE("make_plan: where the device asks for more than the type, that decides") {
  placement_rules rules = host_rules();
  rules.tensor_alignment = 64;
  const plan p = planned({wanted(64, 8, 8), wanted(72, 8, 8)}, rules);
  CHECK(part_of(p, 0).unstaged);
  CHECK_FALSE(part_of(p, 1).unstaged);
  CHECK(p.tensors[1].destination_offset % 64 == 0);
}

TEST_CASE("make_plan: a tensor of no bytes costs no read and no room") {
  SUBCASE("alone") {
    const plan p = planned({wanted(123, 0, 8)}, host_rules());
    CHECK(p.reads.empty());
    CHECK(p.copies.empty());
    CHECK(p.arena_bytes == 4096);
    CHECK(part_of(p, 0).reads_begin == part_of(p, 0).reads_end);
  }
  SUBCASE("before, between and after others") {
    const std::vector<wanted_tensor> extents = {wanted(4096, 0), wanted(4096, 8), wanted(4104, 0),
                                                wanted(4104, 8), wanted(4112, 0)};
    const plan p = planned(extents, host_rules());
    CHECK(asked_of(p) == std::vector<asked>{{4096, 0, 4096, 16}});
    for (const std::size_t empty : {0U, 2U, 4U}) {
      CHECK(part_of(p, empty).reads_begin == part_of(p, empty).reads_end);
    }
    CHECK(p.tensors[1].destination_offset == 0);
    CHECK(p.tensors[3].destination_offset == 8);
  }
}

TEST_CASE("make_plan: nothing wanted is a plan without reads") {
  const plan p = planned({}, host_rules());
  CHECK(p.reads.empty());
  CHECK(p.tensors.empty());
  CHECK(p.arena_bytes == 4096);
}

TEST_CASE("make_plan: runs never go on from one file into the next") {
  const plan p = planned({wanted(0, 4096, 1, 0), wanted(4096, 4096, 1, 1), wanted(8192, 1, 1, 7)},
                         host_rules());
  CHECK(asked_of(p) ==
        std::vector<asked>{{0, 0, 4096, 4096}, {4096, 4096, 4096, 4096}, {8192, 8192, 4096, 1}});
  CHECK(p.reads[0].file == 0);
  CHECK(p.reads[1].file == 1);
  CHECK(p.reads[2].file == 7);
  CHECK(part_of(p, 2).reads_begin == 2);
}
