// SPDX-License-Identifier: Apache-2.0

// The server as a process: saved files have all contents of a model, and deltas follow one another.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <filesystem>
#include <ringload/catalog.hpp>
#include <ringload/delta.hpp>
#include <ringload/loader.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <vector>

#include "client.hpp"
#include "served.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload::testing;
namespace fs = std::filesystem;

namespace {

// Checks that the lists of the server describe the bytes that the server sends.
void check_description(client& one, const std::string& path, const std::string& dtype,
                       std::uint64_t bytes) {
  CAPTURE(path);
  const response sent = one.get(path, "application/octet-stream");
  CHECK(sent["X-Tensor-Dtype"] == dtype);
  CHECK(sent.body().size() == bytes);
  const auto alone = json_of(one.get(path));
  CHECK(text_in(alone, "dtype") == dtype);
  CHECK(alone.at("bytes") == bytes);
  const std::string list_path = path.substr(0, path.rfind('/'));
  const auto list = json_of(one.get(list_path)).at("tensors").as_array();
  CHECK(std::ranges::count(list, alone) == 1);
}

}  // namespace

TEST_CASE("server: a saved .zt file has the metadata, composites and types of the model") {
  const temporary_folder target;
  const served at({"--save-root", target.path().string()});
  const std::string source = (at.in.path() / "typed.zt").string();
  const std::string bytes(36, 'q');
  {
    ringload::writer out(source);
    out.set_attribute_async("steps", 7, boost::asio::use_future).get();
    ringload::object_info pair;
    pair.name = "pair";
    pair.layout = "low_rank";
    pair.shape = {2, 2};
    pair.attributes = {{"rank", 1}};
    out.declare_async(pair, boost::asio::use_future).get();
    const auto one = [&](const char* name, std::uint64_t size) {
      return ringload::tensor_ref(name, bytes.data(), ringload::dtype::u8,
                                  std::vector<std::uint64_t>{size});
    };
    for (const char* part : {"left", "right"}) {
      out.add_part_async("pair", one(part, 2), ringload::object_options(), boost::asio::use_future)
          .get();
    }
    ringload::object_options blocks;
    blocks.attributes = {{"gguf_type", "q4_0"},
                         {"original_shape", ringload::attribute::json("[2,32]")}};
    out.add_async(one("blocks", 36), blocks, boost::asio::use_future).get();
    ringload::object_options noted;
    noted.attributes = {{"note", "kept"}};
    out.add_async(one("plain", 5), noted, boost::asio::use_future).get();
    out.finish_async(boost::asio::use_future).get();
  }
  client one(at.server.port());
  CHECK(one.ask(post("typed.zt", "typed")).result() == http::status::accepted);
  CHECK(text_in(at.end_of("typed"), "state") == "ready");
  const auto save = [&](const char* body) {
    return one.ask(make_request(http::verb::post, "/models/typed/save", body));
  };
  CHECK(save(R"({"path":"saved.zt"})").result() == http::status::created);
  const ringload::catalog found = ringload::read_catalog((target.path() / "saved.zt").string());
  const ringload::catalog expected = ringload::read_catalog(source);
  CHECK(found.metadata == expected.metadata);
  REQUIRE(found.composites.size() == 1);
  CHECK(found.composites[0].layout == "low_rank");
  CHECK(found.composites[0].shape == std::vector<std::uint64_t>{2, 2});
  CHECK(found.composites[0].attributes == expected.composites[0].attributes);
  REQUIRE(found.tensors.size() == expected.tensors.size());
  for (const ringload::tensor_info& info : expected.tensors) {
    CAPTURE(info.name);
    const auto saved = std::ranges::find(found.tensors, info.name, &ringload::tensor_info::name);
    REQUIRE(saved != found.tensors.end());
    CHECK(saved->type == info.type);
    CHECK(saved->original_shape == info.original_shape);
    CHECK(saved->attributes == info.attributes);
  }
  // Quantised blocks are refused, because safetensors would store them as bytes.
  const response refused = save(R"({"path":"saved.safetensors"})");
  CHECK(refused.result() == http::status::conflict);
  CHECK(refused.body().find("quantised blocks of q4_0") != std::string::npos);
  CHECK_FALSE(fs::exists(target.path() / "saved.safetensors"));
}

TEST_CASE("server: with a dtype, describes dequantised tensors and tensors of a delta as sent") {
  const served at({"--dtype", "f32"});
  const auto path = [&](const std::string& name) { return (at.in.path() / name).string(); };
  const std::string bytes(36, 'q');
  {
    ringload::writer out(path("blocks.zt"));
    ringload::object_options blocks;
    blocks.attributes = {{"gguf_type", "q4_0"},
                         {"original_shape", ringload::attribute::json("[2,32]")}};
    const ringload::tensor_ref stored("q", bytes.data(), ringload::dtype::u8,
                                      std::vector<std::uint64_t>{36});
    out.add_async(stored, blocks, boost::asio::use_future).get();
    out.finish_async(boost::asio::use_future).get();
  }
  client one(at.server.port());
  CHECK(one.ask(post("blocks.zt", "blocks")).result() == http::status::accepted);
  CHECK(text_in(at.end_of("blocks"), "state") == "ready");
  check_description(one, "/models/blocks/tensors/q", "F32", 256);
  CHECK(json_of(one.get("/models/blocks/tensors/q")).at("shape") ==
        boost::json::value(boost::json::array{2, 32}));

  write_file(path("base.safetensors"),
             safetensors_text(header_text({tensor_text("a", "F32", "2", 0, 8)}), "aaaabbbb"));
  write_file(path("next.safetensors"),
             safetensors_text(header_text({tensor_text("a", "F32", "2", 0, 8),
                                           tensor_text("new", "BF16", "2", 8, 12)}),
                              "aaaaccccdddd"));
  {
    ringload::loader host_loader;
    ringload::save_delta_async(host_loader, path("next.zt"), path("base.safetensors"),
                               path("next.safetensors"), boost::asio::use_future)
        .get();
  }
  CHECK(one.ask(post("base.safetensors", "m")).result() == http::status::accepted);
  CHECK(text_in(at.end_of("m"), "state") == "ready");
  CHECK(one.ask(make_request(http::verb::put, "/models/m/version", R"({"delta":"next.zt"})"))
            .result() == http::status::accepted);
  CHECK(text_in(at.end_of("m"), "state") == "ready");
  check_description(one, "/models/m/tensors/a", "F32", 8);
  check_description(one, "/models/m/tensors/new", "BF16", 4);
}

TEST_CASE("server: a delta with an index must follow the delta before") {
  const served at;
  const auto path = [&](const std::string& name) { return (at.in.path() / name).string(); };
  const char* const contents[] = {"aaaabbbb", "AAAAbbbb", "AAAABBBB", "XXXXBBBB"};
  ringload::loader host_loader;
  for (unsigned v = 0; v < 4; ++v) {
    write_file(path("v" + std::to_string(v) + ".safetensors"),
               safetensors_text(header_text(
                   {tensor_text("a", "U8", "4", 0, 4), tensor_text("b", "U8", "4", 4, 8)})) +
                   contents[v]);
    if (v == 0) continue;
    ringload::delta_options options;
    options.indexed.emplace();
    options.indexed->encoding = ringload::delta_encoding::overwrite;
    ringload::save_delta_async(host_loader, path("weight_v00000" + std::to_string(v)),
                               path("v" + std::to_string(v - 1) + ".safetensors"),
                               path("v" + std::to_string(v) + ".safetensors"), options,
                               boost::asio::use_future)
        .get();
  }
  client one(at.server.port());
  CHECK(one.ask(post("v0.safetensors", "main")).result() == http::status::accepted);
  at.end_of("main");
  const auto end_of_version = [&](unsigned v) {
    const response begun =
        one.ask(make_request(http::verb::put, "/models/main/version",
                             R"({"delta":"weight_v00000)" + std::to_string(v) + "\"}"));
    CHECK(begun.result() == http::status::accepted);
    return at.end_of("main");
  };
  CHECK(text_in(end_of_version(1), "state") == "ready");
  const boost::json::value gap = end_of_version(3);
  CHECK(text_in(gap, "state") == "failed");
  CHECK(text_in(gap, "error").find("base_version") != std::string::npos);
  CHECK(one.get("/models/main/tensors/a", "application/octet-stream").body() == "AAAA");
  CHECK(text_in(end_of_version(2), "state") == "ready");
  CHECK(text_in(end_of_version(3), "state") == "ready");
  CHECK(one.get("/models/main/tensors/a", "application/octet-stream").body() == "XXXX");
}
