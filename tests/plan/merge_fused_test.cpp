// SPDX-License-Identifier: Apache-2.0
#include "plan/merge_fused.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "plan/planned.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// The parts of a fused tensor of 200 bytes, between two other tensors.
plan plan_fused(const std::vector<std::uint32_t>& result_of) {
  const std::vector<std::uint64_t> shape = {100};
  const std::vector<std::int64_t> strides = {1};
  std::vector<tensor_form> forms(2);
  for (std::size_t i = 0; i < forms.size(); ++i) {
    forms[i].shape = shape;
    forms[i].block = 0;
    forms[i].destination_offset = 100 * i;
    forms[i].destination_strides = strides;
  }
  std::vector<wanted_tensor> tensors = {wanted(0, 64), wanted(200, 100), wanted(100'000, 100),
                                        wanted(300'000, 32)};
  tensors[1].form = &forms[0];
  tensors[2].form = &forms[1];
  const arena_block block = {200, 1, 0};
  plan_input input;
  input.tensors = tensors;
  input.blocks = {&block, 1};
  input.result_of = result_of;
  return make_plan(input, cuda_like_rules(), {slot}).value();
}

}  // namespace

TEST_CASE("merge_fused: the parts of a fused tensor become one tensor at the place of its block") {
  const plan apart = plan_fused({});
  const plan merged = plan_fused({0, 1, 1, 2});
  REQUIRE(apart.tensors.size() == 4);
  REQUIRE(merged.tensors.size() == 3);
  CHECK(merged.tensors[1].bytes == 200);
  CHECK(merged.tensors[1].destination_offset == merged.blocks.front());
  CHECK(apart.tensors[2].destination_offset == merged.blocks.front() + 100);
  CHECK(merged.tensors[0].destination_offset == apart.tensors[0].destination_offset);
  CHECK(merged.tensors[2].destination_offset == apart.tensors[3].destination_offset);
}

TEST_CASE("merge_fused: a fused tensor waits for the parts of all its tensors") {
  const plan merged = plan_fused({0, 1, 1, 2});
  const placement& fused = merged.tensors[1];
  unsigned parts = 0;
  for (std::uint32_t i = fused.parts_begin; i < fused.parts_end; ++i) {
    parts += merged.parts[i].tensor == 1 ? 1 : 0;
  }
  CHECK(parts == 2);
}

TEST_CASE("merge_fused: an empty part adds neither bytes nor parts") {
  plan p;
  p.parts = {{0, 0, 1}, {2, 1, 2}};
  p.tensors.resize(3);
  p.tensors[0] = {0, 64, 0, 0, 1};
  p.tensors[2] = {64, 32, 0, 1, 2};
  const std::vector<wanted_tensor> tensors(3);
  const std::vector<std::uint32_t> result_of = {0, 1, 1};
  plan_input input;
  input.tensors = tensors;
  input.result_of = result_of;
  merge_fused(input, p);
  REQUIRE(p.tensors.size() == 2);
  CHECK(p.parts[1].tensor == 1);
  CHECK(p.tensors[1].bytes == 32);
  CHECK(p.tensors[1].parts_begin == 1);
  CHECK(p.tensors[1].parts_end == 2);
}
