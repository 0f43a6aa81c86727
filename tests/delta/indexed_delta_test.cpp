// SPDX-License-Identifier: Apache-2.0

// Deltas with an index, the layout of slime, SGLang and ModelExpress: written, applied, updated in
// place, followed as a chain, and refused if they are damaged.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <ringload/delta.hpp>
#include <string>
#include <vector>

#include "delta/versions.hpp"

using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::delta_tests;

namespace {

namespace fs = std::filesystem;

constexpr const char* index_name = "model.safetensors.index.json";

delta_options indexed(delta_encoding encoding, delta_checksum checksum) {
  delta_options options;
  options.indexed.emplace();
  options.indexed->encoding = encoding;
  options.indexed->checksum = checksum;
  return options;
}

struct published : place {
  // Full versions 0 to `count`, and the deltas between them.
  explicit published(unsigned count, delta_encoding encoding = delta_encoding::exclusive_or,
                     delta_checksum checksum = delta_checksum::xxh3_128) {
    std::mt19937_64 random(36);
    versions.push_back(random_version(random, 6));
    versions.back()["w"] = {dtype::bf16, {300, 1000}, noise(600'000, 1)};
    versions.back()["dense"] = {dtype::f32, {70'001}, noise(280'004, 2)};
    for (const char* const name : {"run", "base"}) fs::create_directory(path(name));
    save(full(0), versions.back());
    fs::create_directory_symlink(path("base"), path("run/weight_v000000"));
    for (unsigned v = 1; v <= count; ++v) {
      version next = versions.back();
      train(next["w"], 20, random);
      next["dense"].bytes = noise(280'004, 2 + v);
      versions.push_back(next);
      save(full(v), next);
      results.push_back(
          make(delta(v), path(full(v - 1)), path(full(v)), indexed(encoding, checksum)));
    }
  }

  static std::string full(unsigned v) {
    return v == 0 ? "base/model.safetensors" : "full" + std::to_string(v) + ".safetensors";
  }
  static std::string delta(unsigned v) { return "run/weight_v00000" + std::to_string(v); }
  std::string index(unsigned v) const { return path(delta(v)) + "/" + index_name; }
  std::string shard(unsigned v) const { return path(delta(v)) + "/model-00001.safetensors"; }

  model load_newest() { return load_version_async(host_loader, path("run"), future).get(); }

  void replace_in_index(unsigned v, const std::string& from, const std::string& to) const {
    std::string text = text_of(index(v));
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    std::ofstream(index(v), std::ios::binary) << text;
  }

  // Returns the error of an application, and checks that an update in place fails too and keeps the
  // old bytes.
  error failure_of(unsigned v) {
    owned_version memory(versions[v - 1]);
    const auto update = [&] {
      update_async(host_loader, memory.destinations(), path(delta(v)), future).get();
    };
    CHECK(code_of(update));
    CHECK(memory.tensors == versions[v - 1]);
    try {
      apply(load(full(v - 1)), delta(v));
    } catch (const error& failure) {
      return failure;
    }
    FAIL("the delta was applied");
    return error(errc::invalid_options, "", "");
  }

  std::vector<version> versions;
  std::vector<delta_result> results;
};

bool names(const error& failure, const std::string& part) {
  const std::string text = failure.what();
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("indexed delta: each encoding and checksum leads to the next version") {
  for (const delta_encoding encoding : {delta_encoding::exclusive_or, delta_encoding::overwrite}) {
    for (const delta_checksum checksum : {delta_checksum::xxh3_128, delta_checksum::adler32}) {
      published at(1, encoding, checksum);
      const bool is_overwrite = encoding == delta_encoding::overwrite;
      CHECK(at.results[0].tensors_dense == (is_overwrite ? 0 : 2));
      CHECK(at.results[0].tensors_sparse == (is_overwrite ? 2 : 0));
      CHECK(at.results[0].tensors_unchanged == at.versions[0].size() - 2);
      CHECK(at.results[0].bytes == fs::file_size(at.index(1)) + fs::file_size(at.shard(1)));

      const model base = at.load(at.full(0));
      CHECK(tensors_of(at.apply(base, at.delta(1))) == at.versions[1]);
      CHECK(tensors_of(at.apply(base, at.delta(1) + "/" + index_name)) == at.versions[1]);
      apply_options shared;
      shared.allocation = allocation::per_load;
      CHECK(tensors_of(at.apply(base, at.delta(1), shared)) == at.versions[1]);
      load_options mapped;
      mapped.memory = tensor_memory::mapped;
      const model view = at.host_loader.load_async(at.path(at.full(0)), mapped, future).get();
      CHECK(tensors_of(at.apply(view, at.delta(1), shared)) == at.versions[1]);
      CHECK(tensors_of(base) == at.versions[0]);

      owned_version memory(at.versions[0]);
      const auto updated =
          update_async(at.host_loader, memory.destinations(), at.path(at.delta(1)), future).get();
      CHECK(memory.tensors == at.versions[1]);
      CHECK(updated.tensors_changed == 2);
    }
  }
}

TEST_CASE("indexed delta: the index has the texts that slime writes") {
  published at(1);
  const std::string text = text_of(at.index(1));
  for (const char* const part :
       {R"("version": "000001")", R"("base_version": "000000")", R"("delta_encoding": "xor")",
        R"("compression_format": "zstd")", R"("checksum_format": "xxh3-128")",
        R"("w": "model-00001.safetensors")"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(text.find("layer.") == std::string::npos);  // Unchanged tensors are not listed.
}

TEST_CASE("indexed delta: a folder of versions is loaded as a chain") {
  published at(4);
  CHECK(tensors_of(at.load_newest()) == at.versions[4]);
  const auto listed = list_versions(at.path("run"));
  REQUIRE(listed.size() == 5);
  CHECK(listed[0].full == at.path("run/weight_v000000"));
  CHECK(listed[3].delta == at.path("run/weight_v000003"));

  // A full version shortens the chain.
  fs::remove_all(at.path(at.delta(1)));
  CHECK(code_of([&] { at.load_newest(); }) == errc::source_not_found);
  fs::remove_all(at.path(at.delta(2)));
  fs::create_directory(at.path(at.delta(2)));
  fs::copy_file(at.path(at.full(2)), at.path(at.delta(2)) + "/model.safetensors");
  CHECK(list_versions(at.path("run"))[1].full == at.path(at.delta(2)));
  CHECK(tensors_of(at.load_newest()) == at.versions[4]);

  // A version that is being written has no index yet.
  fs::rename(at.index(4), at.path("index"));
  CHECK(tensors_of(at.load_newest()) == at.versions[3]);
  fs::rename(at.path("index"), at.index(4));

  // A version cannot be there twice.
  at.make("run/v4.delta.zt", at.path(at.full(3)), at.path(at.full(4)));
  CHECK(code_of([&] { at.load_newest(); }) == errc::ambiguous_source);
}

TEST_CASE("indexed delta: a chain of links must agree with the names of the versions") {
  published at(3);
  const auto load = [&](const std::vector<unsigned>& deltas) {
    std::vector<source> links = {at.path(at.full(0))};
    for (const unsigned v : deltas) links.emplace_back(at.path(at.delta(v)));
    return load_chain_async(at.host_loader, links, future).get();
  };
  CHECK(tensors_of(load({1, 2, 3})) == at.versions[3]);
  CHECK(code_of([&] { load({1, 3}); }) == errc::malformed_index);

  // A folder with the number of another version is refused, even if its bytes could be applied.
  fs::rename(at.path(at.delta(3)), at.path("run/weight_v000004"));
  fs::rename(at.path(at.delta(2)), at.path("run/weight_v000003"));
  fs::rename(at.path(at.delta(1)), at.path("run/weight_v000002"));
  fs::rename(at.path("run/weight_v000000"), at.path("run/weight_v000001"));
  CHECK(code_of([&] { at.load_newest(); }) == errc::malformed_index);
}

TEST_CASE("indexed delta: a chain does not begin with a delta") {
  published at(2);
  const auto load = [&](std::vector<source> links) {
    return load_chain_async(at.host_loader, std::move(links), future).get();
  };
  const std::string first = at.path(at.delta(1));
  CHECK(code_of([&] { load({first}); }) == errc::not_a_checkpoint);
  CHECK(code_of([&] { load({first, at.path(at.delta(2))}); }) == errc::not_a_checkpoint);
  CHECK(code_of([&] { load({at.index(1)}); }) == errc::not_a_checkpoint);
}

TEST_CASE("indexed delta: apply_async refuses a delta that does not follow the delta before") {
  published at(3);
  const model first = at.apply(at.load(at.full(0)), at.delta(1));
  CHECK(code_of([&] { at.apply(first, at.delta(3)); }) == errc::malformed_index);
  CHECK(code_of([&] { at.apply(first, at.delta(1)); }) == errc::malformed_index);
  const model second = at.apply(first, at.delta(2));
  CHECK(tensors_of(at.apply(second, at.delta(3))) == at.versions[3]);
  // A loaded checkpoint has no version, so only the digests show that the order is wrong.
  CHECK(code_of([&] { at.apply(at.load(at.full(0)), at.delta(2)); }) == errc::wrong_digest);
}

TEST_CASE("indexed delta: damage and unknown layouts are refused by name") {
  published at(2, delta_encoding::overwrite);
  SUBCASE("another base") {
    fs::rename(at.path(at.delta(1)), at.path("moved"));
    fs::rename(at.path(at.delta(2)), at.path(at.delta(1)));
    const error failure = at.failure_of(1);
    CHECK(failure.code() == errc::wrong_digest);
    CHECK(names(failure, "version 000001"));
  }
  SUBCASE("each damaged byte of a shard") {
    const std::string text = text_of(at.shard(1));
    for (std::size_t i = 0; i < text.size(); i += 1 + text.size() / 200) {
      CAPTURE(i);
      // In place: a file that is truncated and written again is flushed to the drive.
      std::fstream file(at.shard(1), std::ios::binary | std::ios::in | std::ios::out);
      const auto position = static_cast<std::streamoff>(i);
      file.seekp(position).put(static_cast<char>(text[i] ^ 0x10)).flush();
      at.failure_of(1);
      file.seekp(position).put(text[i]);
    }
    CHECK(text_of(at.shard(1)) == text);
  }
  SUBCASE("a shard that ends early") {
    fs::resize_file(at.shard(1), fs::file_size(at.shard(1)) - 1);
    at.failure_of(1);
  }
  SUBCASE("a missing shard") {
    fs::remove(at.shard(1));
    CHECK(at.failure_of(1).code() == errc::incomplete_series);
  }
  SUBCASE("an unknown encoding") {
    at.replace_in_index(1, "\"overwrite\"", "\"add\"");
    CHECK(names(at.failure_of(1), "delta_encoding of the delta is 'add'"));
  }
  SUBCASE("the other encoding") {
    at.replace_in_index(1, "\"overwrite\"", "\"xor\"");
    CHECK(at.failure_of(1).code() == errc::malformed_stream);
  }
  SUBCASE("an unknown compression") {
    at.replace_in_index(1, "\"zstd\"", "\"lz4\"");
    CHECK(names(at.failure_of(1), "compression_format of the delta is 'lz4'"));
  }
  SUBCASE("an unknown checksum") {
    at.replace_in_index(1, "\"xxh3-128\"", "\"blake3\"");
    const error failure = at.failure_of(1);
    CHECK(failure.code() == errc::digest_unavailable);
    CHECK(names(failure, "'blake3'"));
  }
  SUBCASE("a tensor that the index does not list") {
    at.replace_in_index(1, R"("w": "model-00001.safetensors")",
                        R"("v": "model-00001.safetensors")");
    CHECK(names(at.failure_of(1), "does not list this tensor"));
  }
  SUBCASE("a missing text") {
    at.replace_in_index(1, "\"base_version\"", "\"base\"");
    CHECK(names(at.failure_of(1), "lacks the text 'base_version'"));
  }
}

TEST_CASE("indexed delta: a model without a changed tensor is refused") {
  published at(1);
  version smaller = at.versions[0];
  smaller.erase("w");
  at.save("smaller.safetensors", smaller);
  CHECK(code_of([&] { at.apply(at.load("smaller.safetensors"), at.delta(1)); }) ==
        errc::wrong_digest);
  owned_version memory(smaller);
  const auto update = [&] {
    update_async(at.host_loader, memory.destinations(), at.path(at.delta(1)), future).get();
  };
  CHECK(code_of(update) == errc::no_such_tensor);
  CHECK(memory.tensors == smaller);
  version shorter = at.versions[0];
  shorter["w"] = {dtype::bf16, {299, 1000}, noise(598'000, 1)};
  at.save("shorter.safetensors", shorter);
  CHECK(code_of([&] { at.apply(at.load("shorter.safetensors"), at.delta(1)); }) ==
        errc::malformed_stream);
}

TEST_CASE("indexed delta: equal versions have a delta without tensors") {
  published at(1);
  const auto result = at.make("run/weight_v000002", at.path(at.full(1)), at.path(at.full(1)),
                              indexed(delta_encoding::overwrite, delta_checksum::adler32));
  CHECK(result.tensors_unchanged == at.versions[1].size());
  CHECK(tensors_of(at.load_newest()) == at.versions[1]);
}

TEST_CASE("indexed delta: an ordinary load does not take a difference for a tensor") {
  published at(1);
  const model loaded = at.load(at.delta(1));
  CHECK(!loaded.find("w"));
  CHECK(loaded.find("w/frame"));
}

TEST_CASE("indexed delta: a delta does not replace the folder of a version") {
  published at(1);
  const std::string name = "run/weight_v000002";
  fs::create_directory(at.path(name));
  at.save(name + "/model.safetensors", at.versions[1]);
  const auto options = indexed(delta_encoding::overwrite, delta_checksum::adler32);
  const std::string other = at.path(at.full(1));
  const std::string relative = fs::relative(at.path(name)).string();
  for (const std::string& version : {at.path(name), relative}) {
    CHECK(code_of([&] { at.make(name, other, version, options); }) == errc::invalid_saving);
    CHECK(code_of([&] { at.make(name, version, other, options); }) == errc::invalid_saving);
  }
  CHECK(tensors_of(at.load(name)) == at.versions[1]);
  fs::create_symlink(at.path(name) + "/model.safetensors", at.path("latest.safetensors"));
  CHECK(code_of([&] { at.make(name, at.path("latest.safetensors"), other, options); }) ==
        errc::invalid_saving);
  CHECK(tensors_of(at.load(name)) == at.versions[1]);

  // The working folder is in the path of the base, but the base is elsewhere.
  const fs::path before = fs::current_path();
  fs::current_path(at.path("run"));
  fs::create_directory("weight_v000003");
  at.save("run/weight_v000003/model.safetensors", at.versions[1]);
  fs::current_path(at.path("run/weight_v000003"));
  CHECK_NOTHROW(at.make("run/weight_v000003", "../weight_v000002", other, options));
  fs::current_path(before);
}

TEST_CASE("indexed delta: a change that the layout cannot describe leaves no folder") {
  published at(1);
  const auto xor_options = indexed(delta_encoding::exclusive_or, delta_checksum::xxh3_128);
  const auto refused = [&](const version& next, delta_options options, const std::string& name) {
    at.save("next.safetensors", next);
    const auto code =
        code_of([&] { at.make(name, at.path(at.full(1)), at.path("next.safetensors"), options); });
    CHECK(!fs::exists(at.path(name)));
    for (const auto& entry : fs::directory_iterator(at.path("run"))) {
      CHECK(entry.path().filename().native().starts_with("weight_v"));
    }
    return code;
  };
  version next = at.versions[1];
  next.erase("w");
  CHECK(refused(next, xor_options, "run/weight_v000002") == errc::unsupported_feature);
  next = at.versions[1];
  next["new"] = next["w"];
  CHECK(refused(next, xor_options, "run/weight_v000002") == errc::unsupported_feature);
  next = at.versions[1];
  next["w"].shape = {1000, 300};
  CHECK(refused(next, xor_options, "run/weight_v000002") == errc::unsupported_feature);
  next = at.versions[1];
  CHECK(refused(next, xor_options, "run/two") == errc::invalid_saving);
  CHECK(refused(next, xor_options, "run/weight_v000000x") == errc::invalid_saving);
  auto uncompressed = xor_options;
  uncompressed.zstd_level = 0;
  CHECK(refused(next, uncompressed, "run/weight_v000002") == errc::invalid_saving);
}

TEST_CASE("indexed delta: names of versions can be any text, and shards stay within the window") {
  published at(1);
  auto options = indexed(delta_encoding::exclusive_or, delta_checksum::adler32);
  options.indexed->version = "step \"two\"";
  options.indexed->base_version = "step one";
  options.window_bytes = 4096;
  at.make("two", at.path(at.full(0)), at.path(at.full(1)), options);
  CHECK(fs::exists(at.path("two/model-00002.safetensors")));
  CHECK(tensors_of(at.apply(at.load(at.full(0)), "two")) == at.versions[1]);
}
