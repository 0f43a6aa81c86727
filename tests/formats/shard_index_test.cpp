// SPDX-License-Identifier: Apache-2.0
#include "formats/shard_index.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "support/safetensors_text.hpp"

using namespace ringload;
using ringload::testing::bytes_of;

namespace {

result<shard_index> parsed(std::string_view text) { return parse_shard_index(bytes_of(text)); }

boost::system::error_code code_of(std::string_view text) {
  const auto answer = parsed(text);
  return answer ? boost::system::error_code{} : answer.error().code;
}

std::string map_to(std::string_view shard) {
  return R"({"weight_map":{"t":")" + std::string(shard) + R"("}})";
}

}  // namespace

TEST_CASE("shard_index: names its shards once and its tensors in order") {
  const auto index = parsed(
      R"({"metadata":{"total_size":24},"weight_map":{"c":"m-2.safetensors","a":"m-1.safetensors",)"
      R"("b":"m-2.safetensors"}})");
  REQUIRE(index.has_value());
  CHECK(index->shards == std::vector<std::string>{"m-1.safetensors", "m-2.safetensors"});
  REQUIRE(index->tensors.size() == 3);
  CHECK(index->tensors[0] == std::pair<std::string, std::uint32_t>("a", 0));
  CHECK(index->tensors[1] == std::pair<std::string, std::uint32_t>("b", 1));
  CHECK(index->tensors[2] == std::pair<std::string, std::uint32_t>("c", 1));
  CHECK(index->total_bytes == 24);
}

TEST_CASE("shard_index: metadata is advice in any form") {
  const std::string map = R"("weight_map":{"t":"a.safetensors"}})";
  const auto total = [&](std::string_view metadata) {
    const auto index = parsed("{" + std::string(metadata) + map);
    REQUIRE(index.has_value());
    return index->total_bytes;
  };
  CHECK_FALSE(total(""));
  CHECK_FALSE(total(R"("metadata":null,)"));
  CHECK_FALSE(total(R"("metadata":{},)"));
  CHECK_FALSE(total(R"("metadata":[1],)"));
  CHECK_FALSE(total(R"("metadata":{"total_size":"12"},)"));
  CHECK_FALSE(total(R"("metadata":{"total_size":-1},)"));
  CHECK_FALSE(total(R"("metadata":{"total_size":null,"x":{"y":[1.5]}},)"));
  CHECK(total(R"("metadata":{"total_size":12,"total_parameters":3.5},)") == 12);
  CHECK(total(R"("metadata":{"total_size":1.6e10},)") == 16'000'000'000);
  CHECK(total(R"("metadata":{"total_size":12.0},"other":[{}],)") == 12);
}

TEST_CASE("shard_index: text that is no index is malformed_index") {
  for (const std::string_view text :
       {"", "[]", "null", "{}", R"({"weight_map":{}})", R"({"weight_map":[]})",
        R"({"weight_map":null})", R"({"weight_map":{"t":1}})", R"({"weight_map":{"t":null}})",
        R"({"weight_map":{"t":["a.safetensors"]}})", R"({"weight_map":{"t":"a.safetensors"})",
        R"({"weight_map":{"t":"a.safetensors"}}})", R"({"weight_map":{"t":"a.safetensors",}})",
        R"({"metadata":{"total_size":1e999},"weight_map":{"t":"a.safetensors"}})",
        R"({"weight_map":{"a":"a.safetensors"},"weight_map":{"b":"b.safetensors"}})",
        "{\"weight_map\":{\"t\":\"\xFF.safetensors\"}}"}) {
    CAPTURE(text);
    CHECK(code_of(text) == errc::malformed_index);
  }
}

TEST_CASE("shard_index: a tensor that stands twice is duplicate_tensor, escaped or not") {
  CHECK(code_of(R"({"weight_map":{"t":"a.safetensors","t":"b.safetensors"}})") ==
        errc::duplicate_tensor);
  CHECK(code_of(R"({"weight_map":{"t":"a.safetensors","\u0074":"a.safetensors"}})") ==
        errc::duplicate_tensor);
}

TEST_CASE("shard_index: sub-folders are legal") {
  const auto index = parsed(map_to("text_encoder/model-00001-of-00002.safetensors"));
  REQUIRE(index.has_value());
  CHECK(index->shards.front() == "text_encoder/model-00001-of-00002.safetensors");
  CHECK_FALSE(code_of(map_to("a..b/..c.safetensors")));
}

TEST_CASE("shard_index: a path that could leave the folder on any system is path_outside_source") {
  for (const std::string_view shard :
       {"/etc/a.safetensors", "../a.safetensors", "a/../b.safetensors", "a/../../b.safetensors",
        "..", "a/..", R"(..\\a.safetensors)", R"(a\\..\\b.safetensors)", R"(\\a.safetensors)",
        R"(\\\\host\\share\\a.safetensors)", R"(C:\\a.safetensors)", "C:a.safetensors",
        "c:/a.safetensors", "a/C:/b.safetensors", "", R"(\u002e\u002e/a.safetensors)",
        "//host/a.safetensors"}) {
    CAPTURE(shard);
    CHECK(code_of(map_to(shard)) == errc::path_outside_source);
  }
}

TEST_CASE("shard_index: a shard of another format is malformed_index") {
  for (const std::string_view shard :
       {"a.bin", "a.safetensors.bin", "safetensors", "a.SAFETENSORS", "a.safetensors ",
        R"(a\u0000b.safetensors)", R"(a\n.safetensors)", "a.safetensors/"}) {
    CAPTURE(shard);
    CHECK(code_of(map_to(shard)) == errc::malformed_index);
  }
}

TEST_CASE("shard_index: an index lists files of its own kind") {
  const auto listed = [](std::string_view shard, std::string_view suffix) {
    return parse_shard_index(bytes_of(map_to(shard)), suffix).has_value();
  };
  CHECK(listed("pytorch_model-00001-of-00002.bin", ".bin"));
  CHECK_FALSE(listed("model-00001-of-00002.safetensors", ".bin"));
  CHECK_FALSE(listed("../a.bin", ".bin"));
}

TEST_CASE("shard_index: many tensors over many shards keep their places") {
  std::string text = R"({"weight_map":{)";
  for (int i = 0; i < 5000; ++i) {
    text += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) + "\":\"s" + std::to_string(i % 97) +
            ".safetensors\"";
  }
  const auto index = parsed(text + "}}");
  REQUIRE(index.has_value());
  CHECK(index->shards.size() == 97);
  for (const auto& [name, shard] : index->tensors) {
    const int number = std::stoi(name.substr(1));
    REQUIRE(index->shards[shard] == "s" + std::to_string(number % 97) + ".safetensors");
  }
}

TEST_CASE("shard_index: the index of a delta has five texts, and may list no tensor") {
  const index_delta delta = {"xor", "000007", "000006", "zstd", "adler32"};
  const std::pair<std::string, std::string> tensors[] = {{"a\"b", "m-1.safetensors"}};
  const auto read = parsed(delta_index_text(delta, tensors));
  REQUIRE(read.has_value());
  REQUIRE(read->delta.has_value());
  CHECK(read->delta->encoding == "xor");
  CHECK(read->delta->version == "000007");
  CHECK(read->delta->base_version == "000006");
  CHECK(read->delta->compression == "zstd");
  CHECK(read->delta->checksum == "adler32");
  REQUIRE(read->tensors.size() == 1);
  CHECK(read->tensors[0].first == "a\"b");
  CHECK(parsed(delta_index_text(delta, {})).has_value());

  CHECK(code_of(R"({"metadata":{"delta_encoding":"xor"},"weight_map":{}})") ==
        errc::malformed_index);
  std::string twice = delta_index_text(delta, {});
  twice.insert(twice.find("\"version\""), R"("delta_encoding": "overwrite", )");
  std::string twice_before = delta_index_text(delta, {});  // Before the key that marks a delta.
  twice_before.insert(twice_before.find("\"delta_encoding\""),
                      R"("version": "1", "version": "2", )");
  CHECK(code_of(twice_before) == errc::malformed_index);
  CHECK(code_of(twice) == errc::malformed_index);
  CHECK(code_of(R"({"metadata":{"version":"1"},"weight_map":{}})") == errc::malformed_index);
  CHECK_FALSE(parsed(R"({"metadata":{"version":"1"},"weight_map":{"a":"m.safetensors"}})")->delta);
}

TEST_CASE("shard_index: the beginning of an index says whether it describes a delta") {
  const index_delta delta = {"xor", "000007", "000006", "zstd", "adler32"};
  const std::pair<std::string, std::string> tensors[] = {{"a", "m-1.safetensors"}};
  const std::string text = delta_index_text(delta, tensors);
  CHECK(describes_delta(text) == true);
  CHECK(describes_delta(text.substr(0, text.find("weight_map"))) == true);
  CHECK(describes_delta(text.substr(0, text.find("checksum"))) == std::nullopt);
  CHECK(describes_delta(R"({"metadata":{"total_size":4},"weight_map":{"a":)") == false);
  CHECK(describes_delta(R"({"weight_map":{"a":"m-1.safetensors"},"metadata":{)") == std::nullopt);
  CHECK(describes_delta(R"({"weight_map":{"a":"b"},"metadata":{"delta_encoding":"xor"}})") == true);
  CHECK(describes_delta(R"({"weight_map":{"a":"b"}})") == false);
  CHECK(describes_delta("") == std::nullopt);
}
