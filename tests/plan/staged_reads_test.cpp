// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "plan/make_plan.hpp"
#include "plan/planned.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::uint64_t staged = read_op::staged;

}  // namespace

TEST_CASE("make_plan: a staged tensor is read into a slot and copied to its place") {
  const plan p = planned({wanted(4100, 100, 4)}, cuda_like_rules());
  CHECK(asked_of(p) == std::vector<asked>{{4096, staged, 4096, 104}});
  CHECK(copies_of(p, 0) == std::vector<copied>{{4, 0, 100}});
  CHECK_FALSE(part_of(p, 0).unstaged);
  CHECK(p.tensors[0].destination_offset == 0);
  CHECK(p.arena_bytes == 4096);
}

TEST_CASE("make_plan: a staged tensor of many slots is cut where its reads end") {
  // The tensor begins at byte 1 of the first slot, so it ends at byte 1 of the sixth slot.
  const plan p = planned({wanted(1, 10 * mib, 2)}, cuda_like_rules());
  CHECK(asked_of(p) == std::vector<asked>{{0, staged, slot, slot},
                                          {slot, staged, slot, slot},
                                          {2 * slot, staged, slot, slot},
                                          {3 * slot, staged, slot, slot},
                                          {4 * slot, staged, slot, slot},
                                          {5 * slot, staged, 4096, 1}});
  CHECK(copies_of(p, 0) == std::vector<copied>{{1, 0, slot - 1}});
  CHECK(copies_of(p, 1) == std::vector<copied>{{0, slot - 1, slot}});
  CHECK(copies_of(p, 5) == std::vector<copied>{{0, 5 * slot - 1, 1}});
  CHECK(part_of(p, 0).reads_begin == 0);
  CHECK(part_of(p, 0).reads_end == 6);
  for (const read_op& read : p.reads) {
    CHECK(read.parts_begin == 0);
    CHECK(read.parts_end == 1);
  }
}

TEST_CASE("make_plan: a staged read that its tensor fills exactly is followed by no empty one") {
  const plan p = planned({wanted(0, slot), wanted(slot, 256)}, cuda_like_rules());
  CHECK(asked_of(p) == std::vector<asked>{{0, staged, slot, slot}, {slot, staged, 4096, 256}});
  CHECK(part_of(p, 0).reads_end == 1);
  CHECK(part_of(p, 1).reads_begin == 1);
}

TEST_CASE("make_plan: neighbours in file and arena are one copy") {
  const plan p = planned({wanted(4096, 512), wanted(4608, 512)}, cuda_like_rules());
  CHECK(copies_of(p, 0) == std::vector<copied>{{0, 0, 1024}});
  CHECK(p.tensors[1].destination_offset == 512);
  CHECK(p.reads[0].parts_begin == 0);
  CHECK(p.reads[0].parts_end == 2);
}

TEST_CASE("make_plan: padding that is the same in file and arena is copied with its neighbours") {
  // The gap between the two has 156 bytes both in the file and, because of the alignment, in the
  // arena.
  const plan p = planned({wanted(4096, 100), wanted(4352, 50)}, cuda_like_rules());
  CHECK(p.tensors[1].destination_offset == 256);
  CHECK(copies_of(p, 0) == std::vector<copied>{{0, 0, 306}});
}

TEST_CASE("make_plan: where file and arena part, a second copy begins") {
  // The second tensor follows directly in the file, but begins at the next multiple of 256 in the
  // arena.
  const plan p = planned({wanted(4096, 100), wanted(4196, 50)}, cuda_like_rules());
  CHECK(p.tensors[1].destination_offset == 256);
  CHECK(copies_of(p, 0) == std::vector<copied>{{0, 0, 100}, {100, 256, 50}});
}

TEST_CASE("make_plan: a copy never goes on from one read into the next") {
  // Both reads have the same distance between file offset and arena offset.
  const plan p = planned({wanted(0, 2 * slot)}, cuda_like_rules());
  REQUIRE(p.reads.size() == 2);
  CHECK(copies_of(p, 0) == std::vector<copied>{{0, 0, slot}});
  CHECK(copies_of(p, 1) == std::vector<copied>{{0, slot, slot}});
}

TEST_CASE("make_plan: every tensor is aligned for the device, whatever the file does") {
  const plan p =
      planned({wanted(3, 1), wanted(4, 5), wanted(9, 300), wanted(309, 7)}, cuda_like_rules());
  CHECK(p.tensors[0].destination_offset == 0);
  CHECK(p.tensors[1].destination_offset == 256);
  CHECK(p.tensors[2].destination_offset == 512);
  CHECK(p.tensors[3].destination_offset == 1024);
}

TEST_CASE("make_plan: staged tensors nearer than 64 KiB share a read, others do not") {
  SUBCASE("one byte less than 64 KiB between them is read through") {
    const plan p = planned({wanted(0, 100), wanted(100 + 64 * kib - 1, 50)}, cuda_like_rules());
    CHECK(asked_of(p) == std::vector<asked>{{0, staged, 17 * 4096, 100 + 64 * kib - 1 + 50}});
    CHECK(copies_of(p, 0) == std::vector<copied>{{0, 0, 100}, {100 + 64 * kib - 1, 256, 50}});
  }
  SUBCASE("64 KiB between them are not") {
    const plan p = planned({wanted(0, 100), wanted(100 + 64 * kib, 50)}, cuda_like_rules());
    CHECK(asked_of(p) == std::vector<asked>{{0, staged, 4096, 100}, {64 * kib, staged, 4096, 150}});
    CHECK(copies_of(p, 1) == std::vector<copied>{{100, 256, 50}});
  }
}

TEST_CASE("make_plan: a tensor that begins past the slot's end begins a read of its own") {
  // The gap is short enough, but the current read ends at 64 KiB.
  const plan p =
      planned({wanted(0, 64 * kib - 10), wanted(64 * kib + 5, 20)}, cuda_like_rules(), 64 * kib);
  CHECK(asked_of(p) ==
        std::vector<asked>{{0, staged, 64 * kib, 64 * kib - 10}, {64 * kib, staged, 4096, 25}});
}

TEST_CASE("make_plan: a staged tensor of no bytes costs nothing, and parts nothing") {
  const plan p =
      planned({wanted(4096, 256), wanted(4352, 0, 8), wanted(4352, 256)}, cuda_like_rules());
  CHECK(copies_of(p, 0) == std::vector<copied>{{0, 0, 512}});
  CHECK(part_of(p, 1).reads_begin == part_of(p, 1).reads_end);
}

TEST_CASE("make_plan: what is staged is read beside what lies near it, and not at the end") {
  // Two tensors in caller memory. Their whole blocks are read without staging, and the bytes at
  // their ends are staged.
  std::vector<tensor_form> forms(2);
  const std::vector<caller_memory> memory = {{1 * mib, mib, true}, {3 * mib, mib, true}};
  std::vector<wanted_tensor> tensors;
  for (std::uint32_t i = 0; i < 2; ++i) {
    forms[i].destination = i + 1;
    tensors.push_back(wanted(100 + i * 200 * kib, 200 * kib));
    tensors.back().form = &forms[i];
  }
  plan_input all;
  all.tensors = tensors;
  all.destinations = memory;
  plan_limits within = {slot};
  within.direct_alignment = 1;
  const plan p = make_plan(all, host_rules(), within).value();
  REQUIRE(p.order.size() == p.reads.size());
  std::uint64_t at = 0;
  for (const std::uint32_t r : p.order) {
    CHECK(p.reads[r].file_offset >= at);
    at = p.reads[r].file_offset;
  }
  // The reads in order: the first block, the whole blocks of the first tensor, the end of a tensor
  // with the beginning of the next, and so on.
  CHECK_FALSE(p.reads[p.order[0]].is_unstaged());
  CHECK(p.reads[p.order[1]].is_unstaged());
  CHECK_FALSE(p.reads[p.order[2]].is_unstaged());
  CHECK(p.reads[p.order[3]].is_unstaged());
}

TEST_CASE(
    "make_plan: what its elements misalign is read without staging where reads land anywhere") {
  const std::vector<wanted_tensor> tensors = {
      wanted(101, 200 * kib, 8), wanted(300 * kib + 4, 80, 8), wanted(400 * kib + 1, 99 * kib, 2),
      wanted(400 * kib + 1, 99 * kib, 2)};
  plan_input all;
  all.tensors = tensors;
  plan_limits within = {slot};
  CHECK_FALSE(part_of(make_plan(all, host_rules(), within).value(), 0).unstaged);
  within.direct_alignment = 1;
  const plan p = make_plan(all, host_rules(), within).value();
  // The first tensor is shifted by half a block and 3 bytes, so that it begins at a multiple of 8.
  // The second tensor is too short for a shift. The other tensors follow the memory of the first.
  CHECK(asked_of(p) == std::vector<asked>{{0, 2051, 204 * kib, 200 * kib + 101},
                                          {400 * kib, 208 * kib + 2049, 100 * kib, 99 * kib + 1},
                                          {300 * kib, read_op::staged, 4096, 84}});
  CHECK(p.tensors[0].destination_offset == 2152);
  CHECK(p.tensors[1].destination_offset % 8 == 0);
  CHECK(p.tensors[2].destination_offset == 208 * kib + 2050);
  CHECK(p.tensors[3].destination_offset == p.tensors[2].destination_offset);
  CHECK(p.tensors[1].destination_offset >= 308 * kib + 2049);
}

TEST_CASE("make_plan: neighbours that are misaligned alike are read in one go") {
  // Two tensors are shifted by half a block and 3 bytes. The third is not shifted, so its first
  // block is read twice.
  const std::vector<wanted_tensor> tensors = {wanted(5, 100 * kib, 8),
                                              wanted(5 + 100 * kib, 100 * kib, 8),
                                              wanted(8 + 200 * kib, 80 * kib, 8)};
  plan_input all;
  all.tensors = tensors;
  plan_limits within = {slot};
  within.direct_alignment = 1;
  const plan p = make_plan(all, host_rules(), within).value();
  CHECK(asked_of(p) == std::vector<asked>{{0, 2051, 204 * kib, 200 * kib + 5},
                                          {200 * kib, 208 * kib, 84 * kib, 80 * kib + 8}});
  CHECK(p.tensors[1].destination_offset == 2056 + 100 * kib);
  CHECK(p.tensors[2].destination_offset == 8 + 208 * kib);
  // Shifted reads are split like all others: where the unshifted position crosses a multiple of the
  // slot size.
  within.slot_bytes = 128 * kib;
  const plan cut = make_plan(all, host_rules(), within).value();
  CHECK(cut.reads[1].file_offset == 128 * kib);
  CHECK(cut.reads[1].destination_offset == 128 * kib + 2051);
}

TEST_CASE("make_plan: of each file the unstaged reads come first, and files stay in order") {
  const std::vector<wanted_tensor> extents = {wanted(1, 6, 2, 0), wanted(8, 8, 8, 0),
                                              wanted(1, 6, 2, 1), wanted(8, 8, 8, 1)};
  const plan p = planned(extents, host_rules());
  REQUIRE(p.reads.size() == 4);
  CHECK(p.reads[0].is_unstaged());
  CHECK_FALSE(p.reads[1].is_unstaged());
  CHECK(p.reads[2].is_unstaged());
  CHECK_FALSE(p.reads[3].is_unstaged());
  CHECK(p.reads[1].file == 0);
  CHECK(p.reads[2].file == 1);
}
