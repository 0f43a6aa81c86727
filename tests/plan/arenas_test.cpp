// SPDX-License-Identifier: Apache-2.0

// Plans with several arenas, and with mapped tensors.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "plan/make_plan.hpp"
#include "plan/planned.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Tensor t is placed in arena t.
result<plan> plan_apart(std::vector<wanted_tensor> tensors,
                        mapping_request views = mapping_request::none, bool present = false,
                        std::uint32_t* failed_tensor = nullptr,
                        std::uint64_t arena_bytes_max = no_limit) {
  plan_input all;
  for (std::uint32_t t = 0; t < tensors.size(); ++t) tensors[t].arena = t;
  all.tensors = tensors;
  all.arenas = static_cast<std::uint32_t>(tensors.size());
  all.mapping = views;
  all.populates_mappings = present;
  plan_limits within = {slot};
  within.arena_bytes_max = arena_bytes_max;
  return make_plan(all, host_rules(), within, failed_tensor);
}

result<plan> plan_views(const std::vector<wanted_tensor>& tensors, mapping_request views,
                        bool present = false) {
  plan_input all;
  all.tensors = tensors;
  all.mapping = views;
  all.populates_mappings = present;
  return make_plan(all, host_rules(), {slot});
}

std::string refusal(const wanted_tensor& tensor, std::span<const wanted_stream> streams = {}) {
  plan_input all;
  all.tensors = {&tensor, 1};
  all.streams = streams;
  all.mapping = mapping_request::all;
  std::uint32_t failed_tensor = no_index;
  const auto outcome = make_plan(all, host_rules(), {slot}, &failed_tensor);
  if (outcome) return "";
  CHECK(outcome.error().code == errc::not_mappable);
  CHECK(failed_tensor == 0);
  return outcome.error().cause();
}

}  // namespace

TEST_CASE(
    "arenas: long tensors that lie side by side are read without staging, each into its own") {
  const plan p = plan_apart({wanted(4096, 70'000), wanted(74'096, 100'000)}).value();
  CHECK(asked_of(p) == std::vector<asked>{
                           {4096, 0, 73'728, 70'000},
                           // The block that contains bytes of both tensors is read twice.
                           {73'728, 0, 102'400, 100'368},
                       });
  CHECK(p.reads[0].destination == 0);
  CHECK(p.reads[1].destination == 1);
  CHECK(p.tensors[1].destination == 1);
  CHECK(p.tensors[1].destination_offset == 368);
  REQUIRE(p.arenas.size() == 2);
  CHECK(p.arenas[0].bytes == 73'728);
  CHECK(p.arenas[1].bytes == 102'400);
  CHECK(p.arenas[1].alignment == block_bytes);
  CHECK(p.arena_bytes == 73'728 + 102'400);
}

TEST_CASE("arenas: short tensors that lie side by side share a staged read") {
  const plan p = plan_apart({wanted(0, 1000, 4), wanted(1000, 600, 8), wanted(1600, 30)}).value();
  REQUIRE(p.reads.size() == 2);
  // The last run is not cut.
  CHECK(p.reads[0].is_unstaged());
  CHECK(p.reads[0].destination == 2);
  CHECK_FALSE(p.reads[1].is_unstaged());
  CHECK(p.copies.size() == 2);
  CHECK(p.copies[1].destination == 1);
  CHECK(p.copies[1].destination_offset == 0);
  CHECK(p.arenas[0].bytes == 1000);
  CHECK(p.arenas[0].alignment == 4);
  CHECK(p.arenas[1].alignment == 8);
}

TEST_CASE("arenas: one byte decides whether a tensor is worth a read of its own") {
  const auto first_is_unstaged = [](std::uint64_t bytes) {
    return part_of(plan_apart({wanted(0, bytes), wanted(bytes, 10)}).value(), 0).unstaged;
  };
  CHECK_FALSE(first_is_unstaged(unstaged_bytes_min - 1));
  CHECK(first_is_unstaged(unstaged_bytes_min));
}

TEST_CASE("arenas: an empty tensor has an address, an arena that nobody uses has no byte") {
  const plan p = plan_apart({wanted(0, 0), wanted(0, 10)}).value();
  CHECK(p.arenas[0].bytes == 1);
  plan_input all;
  const std::vector<wanted_tensor> tensors = {{0, 1, 0, 10, {}, nullptr, 2}};
  all.tensors = tensors;
  all.arenas = 3;
  const plan of_the_third = make_plan(all, host_rules(), {slot}).value();
  CHECK(of_the_third.arenas[0].bytes == 0);
  CHECK(of_the_third.arenas[1].bytes == 0);
  CHECK(of_the_third.arenas[2].bytes == block_bytes);
}

TEST_CASE("arenas: tensors with the same stored bytes share memory in one arena only") {
  const plan p = plan_apart({wanted(0, 100'000), wanted(0, 100'000)}).value();
  CHECK(p.tensors[0].destination == 0);
  CHECK(p.tensors[1].destination == 1);
  CHECK(p.arena_bytes == 2 * 102'400);
  CHECK(planned({wanted(0, 100'000), wanted(0, 100'000)}, host_rules()).arena_bytes == 102'400);
}

namespace {

// Each tensor is placed in all arenas, which have these rules.
plan plan_replicated(const std::vector<wanted_tensor>& tensors,
                     const std::vector<placement_rules>& rules) {
  std::vector<wanted_tensor> all;
  for (const wanted_tensor& each : tensors) {
    for (std::uint32_t a = 0; a < rules.size(); ++a) {
      all.push_back(each);
      all.back().arena = a;
      all.back().replicated = true;
    }
  }
  plan_input in;
  in.tensors = all;
  in.arenas = static_cast<std::uint32_t>(rules.size());
  return make_plan(in, rules, {slot}).value();
}

}  // namespace

TEST_CASE("arenas: what goes to several is read once, without staging into the first, and copied") {
  const std::vector<wanted_tensor> tensors = {wanted(4096, 70'000), wanted(74'096, 3 * slot)};
  const plan one = planned(tensors, host_rules());
  const plan p = plan_replicated(tensors, {host_rules(), host_rules(), host_rules()});
  CHECK(p.bytes_read == one.bytes_read);
  CHECK(asked_of(p) == asked_of(one));
  std::uint64_t copied_bytes[3] = {};
  for (const copy_op& c : p.copies) copied_bytes[c.destination] += c.bytes;
  CHECK(copied_bytes[0] == 0);
  CHECK(copied_bytes[1] == 70'000 + 3 * slot);
  CHECK(copied_bytes[2] == 70'000 + 3 * slot);
  // In both arenas, the second tensor follows the first, so one copy covers both.
  CHECK(p.reads[0].copies_end - p.reads[0].copies_begin == 2);
  CHECK(part_of(p, 1).reads_begin == part_of(p, 0).reads_begin);
  CHECK(part_of(p, 5).reads_end == p.reads.size());
}

TEST_CASE("arenas: where one takes copies from slots only, all have theirs from there") {
  const std::vector<wanted_tensor> tensors = {wanted(4096, 70'000), wanted(74'096, 5000, 4)};
  for (const auto& rules :
       {std::vector{host_rules(), cuda_like_rules()}, std::vector{cuda_like_rules(), host_rules()},
        std::vector{cuda_like_rules(), cuda_like_rules()}}) {
    const plan p = plan_replicated(tensors, rules);
    REQUIRE(p.reads.size() == 1);
    CHECK_FALSE(p.reads[0].is_unstaged());
    CHECK(p.reads[0].bytes_needed == 75'000);
    std::uint64_t copied_bytes[2] = {};
    for (const copy_op& c : p.copies) copied_bytes[c.destination] += c.bytes;
    CHECK(copied_bytes[0] >= 75'000);
    CHECK(copied_bytes[1] >= 75'000);
    for (std::size_t t = 0; t < 4; ++t) {
      const placement_rules& its = rules[t % 2];
      CHECK(p.tensors[t].destination_offset % its.tensor_alignment == 0);
    }
  }
}

TEST_CASE("arenas: of those that are unstaged and those that are not each follows its own rules") {
  plan_input in;
  std::vector<wanted_tensor> tensors = {wanted(0, 100'000), wanted(100'000, 100'000, 4)};
  tensors[1].arena = 1;
  in.tensors = tensors;
  in.arenas = 2;
  const std::vector<placement_rules> rules = {host_rules(), cuda_like_rules()};
  const plan p = make_plan(in, rules, {slot}).value();
  CHECK(part_of(p, 0).unstaged);
  CHECK_FALSE(part_of(p, 1).unstaged);
}

TEST_CASE("arenas: a tensor without stored bytes is aligned by the rules of its own arena") {
  const std::vector<std::uint64_t> shape = {3};
  tensor_form constant;
  constant.shape = shape;
  constant.element_bits = 32;
  constant.has_pieces = true;
  for (const std::uint32_t cuda_like : {0U, 1U}) {
    CAPTURE(cuda_like);
    std::vector<placement_rules> rules = {host_rules(), host_rules()};
    rules[cuda_like] = cuda_like_rules();
    std::vector<wanted_tensor> tensors;
    for (const std::uint32_t arena : {0U, 1U, 0U, 1U}) {
      tensors.push_back({0, 4, 0, 12, {}, &constant, arena});
    }
    plan_input in;
    in.tensors = tensors;
    in.arenas = 2;
    const plan p = make_plan(in, rules, {slot}).value();
    REQUIRE(p.fills.size() == 4);
    for (std::uint32_t t = 0; t < 4; ++t) {
      const std::uint64_t second = t % 2 == cuda_like ? 256 : 12;
      CHECK(p.tensors[t].destination == t % 2);
      CHECK(p.tensors[t].destination_offset == (t < 2 ? 0 : second));
      CHECK(p.fills[t].destination_offset == p.tensors[t].destination_offset);
    }
    CHECK(p.arenas[cuda_like].alignment == 256);
    CHECK(p.arenas[1 - cuda_like].alignment < 256);
  }
}

TEST_CASE("arenas: the limit counts all of them") {
  const std::vector<wanted_tensor> two = {wanted(0, 4096), wanted(0, 4096, 1, 1)};
  CHECK(plan_apart(two, mapping_request::none, false, nullptr, 8192).has_value());
  const auto refused = plan_apart(two, mapping_request::none, false, nullptr, 8191);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == errc::memory_exceeded);
}

TEST_CASE("views: lie where their file has them, without a read") {
  const plan p = plan_views({wanted(8200, 100, 8), wanted(50'000, 10), wanted(12'288, 6, 4, 1)},
                            mapping_request::all)
                     .value();
  CHECK(p.reads.empty());
  CHECK(p.arena_bytes == 0);
  REQUIRE(p.arenas.size() == 3);
  CHECK(p.arenas[0].bytes == 0);
  CHECK_FALSE(p.arenas[0].is_mapped());
  CHECK(p.arenas[1].file == 0);
  CHECK(p.arenas[1].file_offset == 8192);
  CHECK(p.arenas[1].bytes == 50'010 - 8192);
  CHECK(p.arenas[2].file == 1);
  CHECK(p.arenas[2].file_offset == 12'288);
  CHECK(p.tensors[0].destination == 1);
  CHECK(p.tensors[0].destination_offset == 8);
  CHECK(p.tensors[1].destination_offset == 50'000 - 8192);
  CHECK(p.tensors[2].destination == 2);
  CHECK(completions_needed(part_of(p, 0)) == 0);
}

TEST_CASE("views: reads make their pages present, where that is wanted") {
  const plan p = plan_views({wanted(8200, 3 * mib, 8)}, mapping_request::all, true).value();
  CHECK(asked_of(p) == std::vector<asked>{
                           {8192, 0, 2 * mib, 2 * mib},
                           {8192 + 2 * mib, 2 * mib, mib + 4096, mib + 8},
                       });
  CHECK(p.reads[1].destination == 1);
  CHECK(completions_needed(part_of(p, 0)) == 2);
}

TEST_CASE("views: of arenas of their own each has a mapping of its own") {
  const plan p = plan_apart({wanted(0, 100), wanted(100, 5000)}, mapping_request::all).value();
  REQUIRE(p.arenas.size() == 4);
  CHECK(p.arenas[2].bytes == 100);
  CHECK(p.arenas[3].file_offset == 0);
  CHECK(p.arenas[3].bytes == 5100);
  CHECK(p.tensors[1].destination == 3);
  CHECK(p.tensors[1].destination_offset == 100);
}

TEST_CASE("views: what cannot be one is refused with the reason") {
  CHECK(refusal(wanted(4, 40, 4)) == "");
  CHECK(refusal(wanted(1002, 40, 4)) ==
        "it begins at byte 1,002 of the file, expected a multiple of 4");
  CHECK(refusal({0, 4, 0, 40, {float_type::f32, float_type::f16}}) == "the tensor is converted");

  const std::vector<std::uint64_t> shape = {4, 10};
  const std::vector<range> columns = {{0, 4}, {2, 5}};
  const std::vector<range> rows = {{1, 3}, {0, 10}};
  tensor_form form;
  form.shape = shape;
  form.box = columns;
  CHECK(refusal({0, 1, 0, 40, {}, &form}) == "its elements are not contiguous in the file");
  form.box = rows;
  CHECK(refusal({0, 1, 0, 40, {}, &form}) == "");
  form.element_bits = 16;
  form.swap_bytes = 2;
  CHECK(refusal({0, 2, 0, 80, {}, &form}) == "its elements are not contiguous in the file");

  const std::vector<std::uint64_t> origin = {0, 0};
  const std::vector<std::uint64_t> strides = {10, 1};
  const std::vector<wanted_stream> streams = {{wanted_stream::kind::decoded, 0, 0, 20, 40}};
  const std::vector<stored_box> pieces = {{0, 0, origin, shape, strides}};
  tensor_form packed;
  packed.shape = shape;
  packed.has_pieces = true;
  packed.pieces = pieces;
  CHECK(refusal({0, 1, 0, 40, {}, &packed}, streams) == "its bytes are stored encoded");
  packed.pieces = {};
  CHECK(refusal({0, 1, 0, 40, {}, &packed}) == "only a part of the tensor is stored in the file");
}

TEST_CASE("views: where they are only possible, the others are brought") {
  const plan p =
      plan_views({wanted(8, 80, 8), wanted(101, 80, 4)}, mapping_request::possible).value();
  REQUIRE(p.arenas.size() == 2);
  CHECK(p.tensors[0].destination == 1);
  CHECK(p.tensors[1].destination == 0);
  CHECK(p.arenas[0].bytes == 4096);
  REQUIRE(p.reads.size() == 1);
  CHECK_FALSE(p.reads[0].is_unstaged());
}
