// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <cstddef>
#include <set>
#include <span>
#include <string_view>

#include "noise.hpp"

namespace tool = ringload::tool;
using ringload::dtype;
using tool::planned_tensor;

namespace {

std::uint64_t elements(const planned_tensor& tensor) {
  std::uint64_t product = 1;
  for (const std::uint64_t dimension : tensor.shape) product *= dimension;
  return product;
}

bool shapes_fit(const std::vector<planned_tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const planned_tensor& tensor) {
    return elements(tensor) * bits(tensor.dtype) == tensor.bytes * 8;
  });
}

std::size_t distinct_names(const std::vector<planned_tensor>& tensors) {
  std::set<std::string> names;
  for (const planned_tensor& tensor : tensors) names.insert(tensor.name);
  return names.size();
}

std::uint64_t json_length(const std::string& header) {
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(header[i]);
  return length;
}

boost::json::object json_of(const std::string& header) {
  return boost::json::parse(std::string_view(header).substr(8)).as_object();
}

}  // namespace

TEST_CASE("mixed tensors: together exactly as many bytes as were asked for") {
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{1024},
        std::uint64_t{1'000'003}, std::uint64_t{100} << 30, std::uint64_t{1} << 60}) {
    for (const std::uint32_t count : {1U, 2U, 10U, 1000U}) {
      CAPTURE(bytes);
      CAPTURE(count);
      const auto tensors = tool::mixed_tensors(bytes, count, 3);
      CHECK(tensors.size() == count);
      CHECK(tool::bytes_of(tensors) == bytes);
      CHECK(shapes_fit(tensors));
      CHECK(distinct_names(tensors) == count);
    }
  }
}

TEST_CASE("mixed tensors: sizes and types differ") {
  const auto tensors = tool::mixed_tensors(1'000'001, 100, 0);
  std::set<std::uint64_t> sizes;
  std::set<dtype> types;
  for (const planned_tensor& tensor : tensors) {
    sizes.insert(tensor.bytes);
    types.insert(tensor.dtype);
  }
  CHECK(sizes.size() > 50);
  CHECK(types.size() > 8);
  CHECK(std::any_of(sizes.begin(), sizes.end(), [](std::uint64_t size) { return size % 2 == 1; }));
}

TEST_CASE("mixed tensors: with a few bytes each, nearly all of them hold some") {
  const auto tensors = tool::mixed_tensors(400'000, 100'000, 0);
  CHECK(tool::bytes_of(tensors) == 400'000);
  CHECK(std::count_if(tensors.begin(), tensors.end(),
                      [](const auto& tensor) { return tensor.bytes == 0; }) < 20'000);
  CHECK(std::all_of(tensors.begin(), tensors.end(),
                    [](const auto& tensor) { return tensor.bytes < 100; }));
}

TEST_CASE("llama: exactly the bytes asked for, or one less if they are odd") {
  for (std::uint64_t bytes = tool::llama_bytes_min; bytes < (std::uint64_t{100} << 30);
       bytes = bytes * 3 / 2 + 1) {
    CAPTURE(bytes);
    const auto tensors = tool::llama_tensors(bytes);
    CHECK(tool::bytes_of(tensors) == bytes / 2 * 2);
    CHECK(shapes_fit(tensors));
    CHECK(distinct_names(tensors) == tensors.size());
  }
}

TEST_CASE("llama: 16 GB have the width and the depth of the model that is that large") {
  const auto tensors = tool::llama_tensors(16'000'000'000);
  const auto named = [&](std::string_view name) {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const auto& tensor) { return tensor.name == name; });
  };
  CHECK(named("model.layers.31.self_attn.q_proj.weight").shape ==
        std::vector<std::uint64_t>{4096, 4096});
  CHECK(named("model.layers.0.mlp.down_proj.weight").shape ==
        std::vector<std::uint64_t>{4096, 11008});
  CHECK(named("lm_head.weight").shape == named("model.embed_tokens.weight").shape);
  CHECK(named("model.norm.weight").dtype == dtype::bf16);
}

TEST_CASE("shards: none is empty, none is lost, and they are about equal") {
  for (const std::uint32_t count : {1U, 2U, 7U, 99U, 100U}) {
    CAPTURE(count);
    const auto shards = tool::into_shards(tool::mixed_tensors(1'000'000, 100, 1), count);
    REQUIRE(shards.size() == count);
    std::size_t tensors = 0;
    std::uint64_t bytes = 0;
    for (const auto& shard : shards) {
      CHECK_FALSE(shard.empty());
      tensors += shard.size();
      bytes += tool::bytes_of(shard);
      if (count == 7) CHECK(tool::bytes_of(shard) < 200'000);
    }
    CHECK(tensors == 100);
    CHECK(bytes == 1'000'000);
  }
}

TEST_CASE("shards: tensors without bytes are spread too, so that none is without a tensor") {
  const auto shards = tool::into_shards(tool::mixed_tensors(0, 5, 0), 3);
  for (const auto& shard : shards) CHECK_FALSE(shard.empty());
}

TEST_CASE("shard name: five digits, and a plain name for one alone") {
  CHECK(tool::shard_name(0, 1) == "model.safetensors");
  CHECK(tool::shard_name(1, 3) == "model-00002-of-00003.safetensors");
  CHECK(tool::shard_name(99'998, 99'999) == "model-99999-of-99999.safetensors");
}

TEST_CASE("order: by dtype each tensor is aligned for its type, by name many are not") {
  auto tensors = tool::mixed_tensors(1'000'003, 200, 5);
  const auto misaligned = [&] {
    std::uint64_t offset = 0;
    std::size_t count = 0;
    for (const planned_tensor& tensor : tensors) {
      if (offset % alignment(tensor.dtype) != 0) ++count;
      offset += tensor.bytes;
    }
    return count;
  };
  tool::sort_by_dtype(tensors);
  CHECK(misaligned() == 0);
  tool::sort_by_name(tensors);
  CHECK(misaligned() > 50);
}

TEST_CASE("header: metadata first, offsets without a hole, blanks up to a multiple of 8") {
  const std::vector<planned_tensor> tensors = {{"attn.0", dtype::f32, {1, 2, 3}, 24},
                                               {"b\"", dtype::u8, {}, 1},
                                               {"c", dtype::bf16, {0, 5}, 0}};
  const std::string header = tool::header_of(tensors);
  CHECK(header.size() % 8 == 0);
  CHECK(json_length(header) == header.size() - 8);
  CHECK(std::string_view(header).substr(8).starts_with(
      R"({"__metadata__":{"format":"pt"},"attn.0":{"dtype":"F32","shape":[1,2,3],)"
      R"("data_offsets":[0,24]},"b\"":{"dtype":"U8","shape":[],"data_offsets":[24,25]},)"
      R"("c":{"dtype":"BF16","shape":[0,5],"data_offsets":[25,25]}})"));
  CHECK(json_of(header).size() == 4);
}

TEST_CASE("header: no tensors make a header that is one all the same") {
  const std::string header = tool::header_of({});
  CHECK(header.size() == 40);
  CHECK(json_of(header).size() == 1);
}

TEST_CASE("index: every tensor with its file, and the sum of their bytes") {
  const auto shards = tool::into_shards(tool::mixed_tensors(1000, 5, 0), 2);
  const boost::json::object index = boost::json::parse(tool::index_of(shards)).as_object();
  CHECK(index.at("metadata").as_object().at("total_size").as_int64() == 1000);
  const boost::json::object& map = index.at("weight_map").as_object();
  CHECK(map.size() == 5);
  for (std::uint32_t i = 0; i < 2; ++i) {
    for (const planned_tensor& tensor : shards[i]) {
      CHECK(map.at(tensor.name).as_string() == tool::shard_name(i, 2));
    }
  }
}

TEST_CASE("noise: any part alone is what it is in the whole") {
  std::array<std::byte, 40> whole = {};
  tool::fill_with_noise(whole, 7, 100);
  std::array<std::byte, 19> part = {};
  tool::fill_with_noise(part, 7, 102);
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 16));

  std::array<std::byte, 40> other = {};
  tool::fill_with_noise(other, 8, 100);
  CHECK(other != whole);
}

TEST_CASE("noise: the first words of seed 0 never change, so that samples can be compared") {
  CHECK(tool::noise(0, 0) == 0xe220a8397b1dcdafU);
  CHECK(tool::noise(0, 1) == 0x6e789e6aa1b965f4U);
}
