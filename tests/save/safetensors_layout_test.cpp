// SPDX-License-Identifier: Apache-2.0
#include "save/safetensors_layout.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "formats/safetensors/safetensors.hpp"
#include "formats/shard_index.hpp"

using namespace ringload;

namespace {

using text_pairs = std::vector<std::pair<std::string, std::string>>;

checkpoint_layout laid_out(const std::vector<layout_tensor>& tensors,
                           const safetensors_settings& how = {}) {
  auto found = lay_out_safetensors(tensors, how);
  if (!found) FAIL(message_of(found.error()));
  return *found;
}

boost::system::error_code refusal(const std::vector<layout_tensor>& tensors,
                                  const safetensors_settings& how = {}) {
  const auto found = lay_out_safetensors(tensors, how);
  return found ? boost::system::error_code() : found.error().code;
}

// The head of the only file, without its 8 bytes of length.
std::string header(const std::vector<layout_tensor>& tensors,
                   const safetensors_settings& how = {}) {
  const checkpoint_layout found = laid_out(tensors, how);
  REQUIRE(found.files.size() == 1);
  return found.files[0].head.substr(8);
}

file_entries parsed(const file_layout& file) {
  const auto text = std::as_bytes(std::span(file.head)).subspan(8);
  auto found = parse_safetensors(text, file.bytes, strictness::strict);
  if (!found) FAIL(message_of(found.error()));
  return *found;
}

// The parser reads each tensor unchanged, at the place that the layout states.
void check_reads_back(const std::vector<layout_tensor>& tensors, const safetensors_settings& how) {
  const checkpoint_layout found = laid_out(tensors, how);
  REQUIRE(found.tensors.size() == tensors.size());
  std::map<std::string, std::pair<std::uint32_t, entry>> read;
  for (std::uint32_t f = 0; f < found.files.size(); ++f) {
    if (found.files[f].name.ends_with(".json")) continue;
    CHECK(found.files[f].head.size() % how.alignment == 0);
    const file_entries in = parsed(found.files[f]);
    CHECK(in.metadata.size() == how.metadata.size());
    for (const entry& e : in.tensors) read.emplace(e.name, std::pair(f, e));
  }
  REQUIRE(read.size() == tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto& [file, e] = read.at(std::string(tensors[t].name));
    CHECK(file == found.tensors[t].file);
    CHECK(e.dtype == tensors[t].dtype);
    CHECK(e.shape == tensors[t].shape);
    CHECK(e.offset == found.tensors[t].offset);
    CHECK(e.bytes == found.tensors[t].bytes);
  }
}

}  // namespace

TEST_CASE("safetensors layout: the headers that the reference's own tests demand") {
  CHECK(header({}) == "{}      ");
  const text_pairs pt = {{"framework", "pt"}};
  safetensors_settings with;
  with.metadata = pt;
  CHECK(header({}, with) == R"({"__metadata__":{"framework":"pt"}}     )");
  CHECK(header({{"attn.0", dtype::f32, {1, 2, 3}}}) ==
        R"({"attn.0":{"dtype":"F32","shape":[1,2,3],"data_offsets":[0,24]}})");
  CHECK(header({{"attn0", dtype::f32, {1, 1, 2, 3}}}) ==
        R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )");
  CHECK(header({{"attn.0", dtype::f4, {1, 2}}}) ==
        R"({"attn.0":{"dtype":"F4","shape":[1,2],"data_offsets":[0,1]}}    )");
}

TEST_CASE("safetensors layout: types of larger alignment first, then names, however given") {
  const layout_tensor first = {"test1", dtype::i32, {2, 2}};
  const layout_tensor second = {"test2", dtype::f16, {2, 2}};
  const std::string one_way = header({first, second});
  CHECK(one_way == header({second, first}));
  CHECK(one_way.size() == 128);
  CHECK(one_way.ends_with("      "));
  CHECK(one_way.find(R"("test2":{"dtype":"F16","shape":[2,2],"data_offsets":[16,24]})") !=
        std::string::npos);
}

TEST_CASE("safetensors layout: in the order given, if that is wanted") {
  safetensors_settings how;
  how.order = tensor_order::given;
  const checkpoint_layout found =
      laid_out({{"b", dtype::u8, {3}}, {"a", dtype::f64, {1}}, {"c", dtype::u8, {0}}}, how);
  CHECK(found.tensors[1].offset == found.tensors[0].offset + 3);
  CHECK(found.tensors[2].offset == found.tensors[1].offset + 8);
}

TEST_CASE("safetensors layout: aligned to blocks, tensors of whole blocks come first") {
  safetensors_settings how;
  how.alignment = 4096;
  const checkpoint_layout found = laid_out(
      {{"odd", dtype::f64, {1}}, {"w", dtype::bf16, {4096}}, {"v", dtype::u8, {4096}}}, how);
  CHECK(found.files[0].head.size() == 4096);
  CHECK(found.tensors[1].offset == 4096);
  CHECK(found.tensors[2].offset == 4096 + 8192);
  CHECK(found.tensors[0].offset == 4096 + 8192 + 4096);
}

TEST_CASE("safetensors layout: what cannot be written is refused, and why") {
  CHECK(refusal({{"a", dtype::u8, {1}}, {"a", dtype::u8, {1}}}) == errc::duplicate_tensor);
  CHECK(refusal({{"__metadata__", dtype::u8, {1}}}) == errc::invalid_tensor);
  CHECK(refusal({{"\xFF", dtype::u8, {1}}}) == errc::invalid_tensor);
  CHECK(refusal({{std::string_view("a\0b", 3), dtype::u8, {1}}}) == errc::invalid_tensor);
  CHECK(refusal({{"a", dtype::c128, {1}}}) == errc::unsupported_dtype);
  CHECK(refusal({{"a", dtype::f4, {1, 3}}}) == errc::fractional_bytes);
  CHECK_FALSE(refusal({{"a", dtype::f4, {0, 3}}}));
  CHECK(refusal({{"a", dtype::f6_e2m3, {3}}}) == errc::fractional_bytes);
  const std::uint64_t half = std::uint64_t{1} << 63;
  CHECK(refusal({{"a", dtype::u8, {half, 2}}}) == errc::size_overflow);
  CHECK(refusal({{"a", dtype::u8, {0, half, 2}}}) == errc::size_overflow);
  CHECK(refusal({{"a", dtype::u8, {half, 2, 0}}}) == errc::size_overflow);
  CHECK(refusal({{"a", dtype::u8, {half}}}) == errc::size_overflow);
  CHECK_FALSE(refusal({{"a", dtype::u8, std::vector<std::uint64_t>(64, 1)}}));
  CHECK(refusal({{"a", dtype::u8, std::vector<std::uint64_t>(65, 1)}}) == errc::invalid_tensor);
}

TEST_CASE("safetensors layout: settings that contradict themselves are refused") {
  safetensors_settings how;
  for (const std::uint32_t alignment : {0U, 4U, 12U, 4U << 20}) {
    how.alignment = alignment;
    CHECK(refusal({}, how) == errc::invalid_saving);
  }
  how = {};
  how.shards.count = 2;
  CHECK(refusal({}, how) == errc::invalid_saving);
  how.folder = true;
  CHECK_FALSE(refusal({}, how));
  how.shards.bytes = 5;
  CHECK(refusal({}, how) == errc::invalid_saving);
  how = {};
  const text_pairs twice = {{"a", "1"}, {"a", "2"}};
  how.metadata = twice;
  CHECK(refusal({}, how) == errc::invalid_saving);
  const text_pairs broken = {{"a", "\xC0"}};
  how.metadata = broken;
  CHECK(refusal({}, how) == errc::invalid_saving);
}

TEST_CASE("safetensors layout: shards have names and an index as transformers writes them") {
  safetensors_settings how;
  how.folder = true;
  CHECK(laid_out({{"a", dtype::u8, {4}}}, how).files.at(0).name == "model.safetensors");
  how.shards.count = 2;
  const checkpoint_layout found = laid_out({{"b\"", dtype::u8, {4}}, {"a", dtype::u8, {9}}}, how);
  REQUIRE(found.files.size() == 3);
  CHECK(found.files[0].name == "model-00001-of-00002.safetensors");
  CHECK(found.files[1].name == "model-00002-of-00002.safetensors");
  CHECK(found.files[2].name == "model.safetensors.index.json");
  const std::string of_a = found.files[found.tensors[1].file].name;
  const std::string of_b = found.files[found.tensors[0].file].name;
  CHECK(found.files[2].head ==
        "{\n  \"metadata\": {\n    \"total_size\": 13\n  },\n"
        "  \"weight_map\": {\n    \"a\": \"" +
            of_a + "\",\n    \"b\\\"\": \"" + of_b + "\"\n  }\n}\n");
  CHECK(found.files[2].bytes == found.files[2].head.size());
}

TEST_CASE("safetensors layout: whatever is laid out, our own parser reads back") {
  std::mt19937_64 random(11);
  const text_pairs metadata = {{"format", "pt"}, {"\"quoted\"\n", "\b\f\t\\ \xC3\xA9"}};
  for (int round = 0; round < 150; ++round) {
    std::vector<std::string> names;
    for (std::uint64_t t = 0; t < random() % 20; ++t) {
      std::string name = "t" + std::to_string(t);
      if (random() % 5 == 0) name += "\"\\\xE2\x82\xAC/";
      names.push_back(name);
    }
    std::vector<layout_tensor> tensors;
    for (const std::string& name : names) {
      layout_tensor one = {name, static_cast<dtype>(random() % (dtype_count - 1)), {}};
      for (std::uint64_t d = 0; d < random() % 4; ++d) one.shape.push_back(random() % 70);
      if (bits(one.dtype) % 8 != 0) one.shape.push_back(4);
      if (random() % 3 == 0) one.shape.push_back(4096);
      tensors.push_back(std::move(one));
    }
    safetensors_settings how;
    if (random() % 2 == 0) how.metadata = metadata;
    if (random() % 2 == 0) how.order = tensor_order::given;
    how.alignment = 8U << random() % 12;
    how.folder = random() % 2 == 0;
    if (how.folder && random() % 2 == 0) how.shards.bytes = 1 + random() % 1'000'000;
    check_reads_back(tensors, how);
  }
}
