// SPDX-License-Identifier: Apache-2.0
#include "selection_text.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <ringload/error.hpp>
#include <stdexcept>

namespace tool = ringload::tool;
using ringload::catalog;
using ringload::errc;
using shape = std::vector<std::uint64_t>;

namespace {

std::string refusal(const std::function<void()>& of) {
  try {
    of();
  } catch (const std::invalid_argument& wrong) {
    return wrong.what();
  }
  return "";
}

std::string refused_slice(const std::string& text) {
  return refusal([&text] { tool::parse_slice(text); });
}

// "w" of [10, 4] in bytes, "a[0]" of [6] and a scalar.
catalog small_catalog() {
  catalog out;
  out.files.push_back({"f", 1000, "safetensors"});
  out.tensors.push_back({"w", ringload::dtype::u8, {10, 4}, 0, 100, 40});
  out.tensors.push_back({"a[0]", ringload::dtype::u8, {6}, 0, 140, 6});
  out.tensors.push_back({"one", ringload::dtype::u8, {}, 0, 146, 1});
  return out;
}

catalog chosen_by(const tool::selection_text& wanted) {
  const catalog all = small_catalog();
  return ringload::chosen(all, tool::selection_of(wanted, all));
}

// The selected part of the tensor.
shape sliced(const std::string& text) {
  tool::selection_text wanted;
  wanted.slices.push_back(tool::parse_slice(text));
  for (const ringload::tensor_info& each : chosen_by(wanted).tensors) {
    if (each.name == wanted.slices.front().name) return each.shape;
  }
  return {};
}

ringload::error failed_slice(const std::string& text) {
  try {
    sliced(text);
  } catch (const ringload::error& failed) {
    return failed;
  }
  return {{}, "", ""};
}

}  // namespace

TEST_CASE("slice text: ranges as in Python, for the first dimensions") {
  CHECK(sliced("w[0:3]") == shape{3, 4});
  CHECK(sliced("w[0:3,:]") == shape{3, 4});
  CHECK(sliced("w[2:, 1:3]") == shape{8, 2});
  CHECK(sliced("w[:7,:1]") == shape{7, 1});
  CHECK(sliced("w[:, :]") == shape{10, 4});
  CHECK(sliced("w[ 1 : 2 , : ]") == shape{1, 4});
  CHECK(sliced("w[10:]") == shape{0, 4});
  CHECK(sliced("w[3:3]") == shape{0, 4});
}

TEST_CASE("slice text: one index keeps its dimension, with size 1") {
  CHECK(sliced("w[3]") == shape{1, 4});
  CHECK(sliced("w[9, 0]") == shape{1, 1});
  CHECK(sliced("w[-1, -1]") == shape{1, 1});
  CHECK(failed_slice("w[10]").code() == errc::invalid_selection);
  CHECK(failed_slice("w[-11]").code() == errc::invalid_selection);
}

TEST_CASE("slice text: numbers below 0 count from the end") {
  CHECK(sliced("w[-3:]") == shape{3, 4});
  CHECK(sliced("w[:-1,-2:-1]") == shape{9, 1});
  CHECK(sliced("w[-10:]") == shape{10, 4});
  CHECK(failed_slice("w[-11:]").code() == errc::invalid_selection);
}

TEST_CASE("slice text: the last brackets hold the ranges, so names may have some too") {
  const tool::slice_text slice = tool::parse_slice("a[0][1:3]");
  CHECK(slice.name == "a[0]");
  REQUIRE(slice.ranges.size() == 1);
  CHECK(slice.ranges[0].begin == 1);
  CHECK(slice.ranges[0].end == 3);
  CHECK(sliced("a[0][1:3]") == shape{2});
  CHECK(tool::parse_slice("[:]").name.empty());
}

TEST_CASE("slice text: what is no range is refused, with what is wrong") {
  for (const char* text : {"", "w", "w[0:1", "w0:1]", "w[0:1]x"}) {
    CAPTURE(text);
    CHECK(refused_slice(text).starts_with("has no ranges in brackets at the end"));
  }
  CHECK(refused_slice("w[]") == "has no range in its brackets");
  CHECK(refused_slice("w[0:4:2]").starts_with("has a range with a step"));
  CHECK(refused_slice("w[9223372036854775807]") == "has an index of more than 64 bits");
  CHECK(refused_slice("w[99999999999999999999:]") == "has an index of more than 64 bits");
  for (const char* text : {"w[0:1,]", "w[,0]", "w[x]", "w[1.5]", "w[0x10]", "w[+1]", "w[- 1]",
                           "w[...]", "w[-]", "w[1 2]"}) {
    CAPTURE(text);
    CHECK(refused_slice(text).find("expected an index or a range") != std::string::npos);
  }
}

TEST_CASE("slice text: a tensor that it does not fit is an error with the text") {
  const ringload::error unknown = failed_slice("v[0:1]");
  CHECK(unknown.code() == errc::no_such_tensor);
  CHECK(std::string(unknown.what()) == "slice 'v[0:1]': the checkpoint has no tensor 'v'");
  CHECK(std::string(failed_slice("w[0,0,0]").what()) ==
        "slice 'w[0,0,0]': 3 ranges, but the tensor has 2 dimensions");
  CHECK(std::string(failed_slice("w[0:11]").what()) ==
        "slice 'w[0:11]': the range is not within dimension 0, whose size is 10");
  CHECK(std::string(failed_slice("w[:, 3:1]").what()) ==
        "slice 'w[:, 3:1]': the range of dimension 1 ends before it begins");
  CHECK(failed_slice("one[0]").code() == errc::invalid_selection);
}

TEST_CASE("slice text: ranges of quantised blocks count elements, and other types count bytes") {
  catalog all = small_catalog();
  all.tensors.push_back({"q", ringload::dtype::u8, {108}, 0, 200, 108});
  all.tensors.back().type = "q4_0";
  all.tensors.back().original_shape = {3, 64};
  all.tensors.push_back({"packed", ringload::dtype::u8, {6}, 0, 308, 6});
  all.tensors.back().type = "int4";
  all.tensors.back().original_shape = {3, 4};
  const auto part = [&all](const std::string& text) {
    tool::selection_text wanted;
    wanted.slices.push_back(tool::parse_slice(text));
    const catalog selected = ringload::chosen(all, tool::selection_of(wanted, all));
    for (const ringload::tensor_info& each : selected.tensors) {
      if (each.name == wanted.slices.front().name) return each;
    }
    return ringload::tensor_info();
  };
  CHECK(part("q[-2:]").original_shape == shape{2, 64});
  CHECK(part("q[-2:]").bytes == 72);
  CHECK(part("q[:, 32:]").original_shape == shape{3, 32});
  CHECK(part("q[:]").bytes == 108);
  CHECK_THROWS_AS(part("q[0:100]"), ringload::error);
  CHECK(part("packed[-2:]").shape == shape{2});
  CHECK_THROWS_AS(part("packed[:, 0:2]"), ringload::error);
}

TEST_CASE("shard text: the last colon stands before the dimension") {
  const tool::shard_text shard = tool::parse_shard("a:*.weight:12");
  CHECK(shard.glob == "a:*.weight");
  CHECK(shard.dim == 12);
  for (const char* text : {"", "w", ":0", "w:", "w:-1", "w:x", "w:4294967296"}) {
    CAPTURE(text);
    CHECK(refusal([text] { tool::parse_shard(text); }) != "");
  }
}

TEST_CASE("place text: what is behind the last colon says where, and all is for everything") {
  const auto place = [](const char* text) {
    const tool::place_text made = tool::parse_place(text);
    return made.glob + " " + std::to_string(static_cast<int>(made.how)) + " " +
           std::to_string(made.number);
  };
  CHECK(place("1") == "* 0 1");
  CHECK(place("all") == "* 0 4294967295");
  CHECK(place("spread") == "* 1 0");
  CHECK(place("dim2") == "* 2 2");
  CHECK(place("a:*.weight:dim0") == "a:*.weight 2 0");
  CHECK(place("w:spread") == "w 1 0");
  for (const char* text : {"", ":0", "w:", "w:-1", "dim", "w:dimx", "everywhere", "4294967295"}) {
    CAPTURE(text);
    CHECK(refusal([text] { tool::parse_place(text); }) != "");
  }
}

TEST_CASE("rank text: R of N, and R is below N") {
  CHECK(tool::parse_rank("0/1").ranks == 1);
  CHECK(tool::parse_rank("3/4").rank == 3);
  CHECK(refusal([] { tool::parse_rank("4/4"); }) == "is invalid, expected 0/4 to 3/4");
  CHECK(refusal([] { tool::parse_rank("0/0"); }) == "has 0 ranks, expected at least 1");
  for (const char* text : {"", "1", "/", "1/", "/4", "-1/4", "1/4/2", "a/b"}) {
    CAPTURE(text);
    CHECK(refusal([text] { tool::parse_rank(text); }) ==
          "is invalid, expected R/N, such as '0/4' or '3/4'");
  }
}

TEST_CASE("selection text: a rank and what it is for belong together") {
  tool::selection_text wanted;
  CHECK(refusal([&] { tool::check_complete(wanted, "--"); }) == "");
  wanted.shards.push_back({"w", 0});
  CHECK(refusal([&] { tool::check_complete(wanted, "--"); }) == "--shard needs --rank");
  wanted.rank = tool::rank_text{1, 3};
  CHECK(refusal([&] { tool::check_complete(wanted, "--"); }) == "");
  wanted.shards.clear();
  CHECK(refusal([&] { tool::check_complete(wanted, ""); }) == "rank needs shard or experts");
  wanted.experts = true;
  CHECK(refusal([&] { tool::check_complete(wanted, "--"); }) == "");
  wanted.rank.reset();
  CHECK(refusal([&] { tool::check_complete(wanted, "--"); }) == "--experts needs --rank");
}

TEST_CASE("selection text: globs, exceptions, slices and shards become one selection") {
  tool::selection_text wanted;
  CHECK(wanted.everything());
  CHECK(chosen_by(wanted).tensors.size() == 3);
  wanted.except = {"a*"};
  CHECK_FALSE(wanted.everything());
  CHECK(chosen_by(wanted).tensors.size() == 2);
  wanted.select = {"w"};
  wanted.slices.push_back(tool::parse_slice("w[:, 1:3]"));
  wanted.shards.push_back(tool::parse_shard("w:0"));
  wanted.rank = tool::parse_rank("3/4");
  const catalog made = chosen_by(wanted);
  REQUIRE(made.tensors.size() == 1);
  CHECK(made.tensors[0].shape == shape{1, 2});  // Blocks of 3, 3, 3 and 1 of 10.
  CHECK(made.tensors[0].bytes == 2);
}
