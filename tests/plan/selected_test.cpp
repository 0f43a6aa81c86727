// SPDX-License-Identifier: Apache-2.0

// Plans of slices and of destinations in caller memory, compared with numbers.

#include <doctest/doctest.h>

#include <vector>

#include "plan/planned.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

using numbers = std::vector<std::uint64_t>;

plan selected(const std::vector<wanted_tensor>& tensors, const std::vector<caller_memory>& memory,
              const placement_rules& rules) {
  plan_input all;
  all.tensors = tensors;
  all.destinations = memory;
  return make_plan(all, rules, {slot}).value();
}

tensor_form form_of(const numbers& shape, const std::vector<range>& box) {
  tensor_form form;
  form.shape = shape;
  form.box = box;
  form.element_bits = 32;
  return form;
}

}  // namespace

TEST_CASE("make_plan: a slice of the first dimension is a shorter extent, and unstaged") {
  const numbers shape = {1000, 1024};
  const std::vector<range> box = {{250, 500}, {0, 1024}};
  const tensor_form form = form_of(shape, box);
  const plan p = selected({{0, 4, 4096, 4'096'000, {}, &form}}, {}, host_rules());
  CHECK(asked_of(p) == std::vector<asked>{{4096 + 250 * 4096, 0, 250 * 4096, 250 * 4096}});
  CHECK(p.tensors[0].bytes == 250 * 4096);
  CHECK(p.bytes_wanted == 250 * 4096);
  CHECK(p.bytes_read == 250 * 4096);
}

TEST_CASE("make_plan: columns that are near each other are one copy for each read") {
  const numbers shape = {10'000, 1024};
  const std::vector<range> box = {{0, 10'000}, {0, 512}};
  const tensor_form form = form_of(shape, box);
  const plan p = selected({{0, 4, 0, 40'960'000, {}, &form}}, {}, host_rules());
  // The last row's second half is not read.
  CHECK(p.reads.size() == 20);
  CHECK(p.copies.size() == 20);
  CHECK(p.maps.size() == 1);
  CHECK(p.bytes_wanted == 20'480'000);
  CHECK(p.bytes_read == 40'960'000 - 4096 + 4096);
}

TEST_CASE("make_plan: rows that lie 64 KiB apart are read one by one") {
  const numbers shape = {3, 32'768};  // 128 KiB a row.
  SUBCASE("64 KiB between them are skipped") {
    const std::vector<range> box = {{0, 3}, {0, 16'384}};
    const tensor_form form = form_of(shape, box);
    const plan p = selected({{0, 4, 0, 393'216, {}, &form}}, {}, host_rules());
    CHECK(p.reads.size() == 3);
    CHECK(p.bytes_read == p.bytes_wanted);
  }
  SUBCASE("one element less is read through") {
    const std::vector<range> box = {{0, 3}, {0, 16'385}};
    const tensor_form form = form_of(shape, box);
    const plan p = selected({{0, 4, 0, 393'216, {}, &form}}, {}, host_rules());
    CHECK(p.reads.size() == 1);
    CHECK(p.copies.size() == 1);
  }
}

TEST_CASE(
    "make_plan: memory of the caller's is read without staging in whole blocks, neighbours share") {
  // Two adjacent tensors in the file. Their memory has the same offset modulo 512.
  tensor_form first;
  first.destination = 1;
  tensor_form second;
  second.destination = 2;
  const std::vector<wanted_tensor> tensors = {{0, 4, 1000, 200'000, {}, &first},
                                              {0, 4, 201'000, 200'000, {}, &second}};
  const std::vector<caller_memory> memory = {{1'000 + 512 * 9, 200'000, true},
                                             {201'000 + 512 * 5, 200'000, true}};
  const plan p = selected(tensors, memory, cuda_like_rules());
  CHECK(asked_of(p) == std::vector<asked>{{4096, 3096, 196'608, 196'608},
                                          {204'800, 3800, 192'512, 192'512},
                                          {0, read_op::staged, 4096, 4096},
                                          {200'704, read_op::staged, 4096, 4096},
                                          {397'312, read_op::staged, 4096, 3688}});
  CHECK(copies_of(p, 2) == std::vector<copied>{{1000, 0, 3096}});
  CHECK(copies_of(p, 3) == std::vector<copied>{{0, 199'704, 296}, {296, 0, 3800}});
  CHECK(p.reads[1].destination == 2);
  CHECK(p.arena_bytes == block_bytes);
}

TEST_CASE("make_plan: what does not fit where it is to go is refused, and whose fault it is") {
  tensor_form form;
  form.destination = 1;
  plan_input all;
  const std::vector<wanted_tensor> tensors = {{0, 4, 0, 16}, {0, 4, 16, 400, {}, &form}};
  std::vector<caller_memory> memory = {{4096, 399, true}};
  all.tensors = tensors;
  all.destinations = memory;
  std::uint32_t failed_tensor = 0;
  const auto outcome = make_plan(all, host_rules(), {slot}, &failed_tensor);
  REQUIRE_FALSE(outcome.has_value());
  CHECK(failed_tensor == 1);
  CHECK(outcome.error().code == errc::memory_exceeded);
  memory[0].bytes = 400;
  CHECK(make_plan(all, host_rules(), {slot}).has_value());
}

TEST_CASE("make_plan: a box of half a byte is refused") {
  const numbers shape = {3, 10};
  for (const range columns : {range{0, 3}, range{1, 3}, range{1, 2}}) {
    const std::vector<range> box = {{0, 3}, columns};
    tensor_form form = form_of(shape, box);
    form.element_bits = 4;
    const std::vector<wanted_tensor> tensors = {{0, 1, 0, 15, {}, &form}};
    plan_input all;
    all.tensors = tensors;
    const auto made = make_plan(all, host_rules(), {slot});
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().code == errc::fractional_bytes);
  }
}

TEST_CASE("make_plan: tensors that are the same bytes lie at the same place, staged or unstaged") {
  for (const placement_rules& rules : {host_rules(), cuda_like_rules()}) {
    const plan p =
        planned({wanted(4096, 5000, 4), wanted(4096, 5000, 4), wanted(5096, 100, 4)}, rules);
    CHECK(p.tensors[0].destination_offset == p.tensors[1].destination_offset);
    CHECK(p.reads.size() == 1);
    CHECK(feeds(p, 0, 0));
    CHECK(feeds(p, 0, 1));
    CHECK(feeds(p, 0, 2));
  }
}
