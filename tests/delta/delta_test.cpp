// SPDX-License-Identifier: Apache-2.0

// Deltas: made from two checkpoints, applied to a model and to memory of the caller.

#include <ringload/delta.hpp>

#include <doctest/doctest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <ringload/as_exception.hpp>
#include <ringload/error.hpp>
#include <ringload/writer.hpp>
#include <string>
#include <vector>

#include "delta/versions.hpp"
#include "formats/gguf_text.hpp"
#include "load/tensor_storage.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;
using namespace ringload::testing::delta_tests;

TEST_CASE("delta: a chain of deltas leads to each version, byte for byte") {
  std::mt19937_64 random(20261124);
  for (unsigned round = 0; round < 6; ++round) {
    place at;
    version current = random_version(random, 1 + static_cast<unsigned>(random() % 12));
    std::string base = at.save("v0.safetensors", current);
    model applied = at.load("v0.safetensors");
    owned_version updated(current);
    bool has_same_tensors = true;
    for (unsigned v = 1; v <= 4; ++v) {
      version next = next_version(current, random);
      if (random() % 3 == 0) {
        next.erase(next.begin());
        next["added." + std::to_string(v)] = random_version_tensor(random);
        next["retyped"] = random_version_tensor(random);
        has_same_tensors = false;
      }
      const std::string name = "v" + std::to_string(v);
      const std::string path = at.save(name + ".safetensors", next);
      delta_options options;
      options.window_bytes = std::uint64_t{1} << (10 + random() % 14);
      options.zstd_level = random() % 4 == 0 ? 0 : 3;
      const delta_result made = at.make(name + ".zt", base, path, options);
      CHECK(made.bytes == std::filesystem::file_size(at.path(name + ".zt")));
      CHECK(made.tensors_unchanged + made.tensors_sparse + made.tensors_dense +
                made.tensors_whole ==
            next.size());
      const model before = applied;
      const version old = tensors_of(before);
      applied = at.apply(before, name + ".zt");
      CHECK(tensors_of(applied) == next);
      CHECK(tensors_of(before) == old);
      CHECK(applied.catalog().metadata == attributes{{"format", name + ".safetensors"}});
      if (has_same_tensors) {
        update_async(at.host_loader, updated.destinations(), at.path(name + ".zt"), future).get();
        CHECK(updated.tensors == next);
      }
      base = path;
      current = std::move(next);
    }
  }
}

TEST_CASE("delta: two percent of changed bf16 values take less than three percent of the model") {
  std::mt19937_64 random(2);
  place at;
  version current;
  current["w"] = {dtype::bf16, {1000, 1000}, noise(2'000'000, 5)};
  const std::string base = at.save("a.safetensors", current);
  train(current["w"], 20, random);
  const std::string next = at.save("b.safetensors", current);
  const delta_result made = at.make("d.zt", base, next);
  CHECK(made.tensors_sparse == 1);
  CHECK(made.elements == 1'000'000);
  CHECK(made.elements_changed > 19'000);
  CHECK(made.elements_changed < 21'000);
  CHECK(made.bytes < 60'000);
}

TEST_CASE("delta: the form is sparse, dense or whole, as the changes need") {
  place at;
  version base;
  base["few"] = {dtype::f32, {10'000}, noise(40'000, 1)};
  base["low bits"] = {dtype::f32, {10'000}, noise(40'000, 2)};
  base["all"] = {dtype::f32, {10'000}, noise(40'000, 3)};
  base["none"] = {dtype::f32, {10'000}, noise(40'000, 4)};
  version next = base;
  next["few"].bytes[0] ^= 1;
  for (std::size_t i = 0; i < 40'000; i += 4) next["low bits"].bytes[i] ^= 1;
  next["all"].bytes = std::string(40'000, 'y');
  const delta_result made =
      at.make("d.zt", at.save("a.safetensors", base), at.save("b.safetensors", next));
  CHECK(made.tensors_sparse == 1);
  CHECK(made.tensors_dense == 1);
  CHECK(made.tensors_whole == 1);
  CHECK(made.tensors_unchanged == 1);
  CHECK(tensors_of(at.apply(at.load("a.safetensors"), "d.zt")) == next);
}

TEST_CASE("delta: unchanged tensors share the memory of the base, and memory() counts it once") {
  place at;
  version base;
  base["kept"] = {dtype::u8, {100'000}, noise(100'000, 1)};
  base["new"] = {dtype::u8, {200'000}, noise(200'000, 2)};
  version next = base;
  next["new"].bytes[7] ^= 1;
  at.make("d.zt", at.save("a.safetensors", base), at.save("b.safetensors", next));
  model before = at.load("a.safetensors");
  const std::uint64_t bytes_before = at.host_loader.memory().tensor_bytes;
  model after = at.apply(before, "d.zt");
  CHECK(after.at("kept").data() == before.at("kept").data());
  CHECK(after.at("new").data() != before.at("new").data());
  CHECK(at.host_loader.memory().tensor_bytes == bytes_before + 200'000);
  before = {};
  CHECK(tensors_of(after) == next);
  after = {};
  CHECK(at.host_loader.memory().tensor_bytes == 0);
}

TEST_CASE("delta: a chain of versions keeps no catalog and no file list of earlier versions") {
  place at;
  version current;
  for (const char* const name : {"a", "b", "changed"}) {
    current[name] = {dtype::u8, {50'000}, noise(50'000, 1)};
  }
  std::string path = at.save("v0.safetensors", current);
  model applied = at.load("v0.safetensors");
  const std::uint64_t bytes_before = at.host_loader.memory().tensor_bytes;
  std::vector<std::weak_ptr<const detail::tensor_storage>> earlier;
  for (unsigned v = 1; v <= 8; ++v) {
    CAPTURE(v);
    current["changed"].bytes[v] ^= 1;
    const std::string name = "v" + std::to_string(v);
    const std::string next = at.save(name + ".safetensors", current);
    at.make(name + ".zt", path, next);
    path = next;
    for (const auto& stored : applied.storage()->arenas()) earlier.push_back(stored);
    applied = at.apply(applied, name + ".zt");
    CHECK(tensors_of(applied) == current);
    const catalog& found = applied.catalog();
    CHECK(found.files.size() == 2);
    for (const tensor_info& info : found.tensors) {
      const bool is_changed = info.name == "changed";
      CHECK(found.files.at(info.file).path ==
            at.path(is_changed ? name + ".zt" : "v0.safetensors"));
    }
    CHECK(comes_true([&] {
      return std::ranges::all_of(earlier, [](const auto& stored) { return stored.expired(); });
    }));
    CHECK(
        comes_true([&] { return at.host_loader.memory().tensor_bytes == bytes_before + 50'000; }));
  }
  applied = {};
  CHECK(comes_true([&] { return at.host_loader.memory().tensor_bytes == 0; }));
}

TEST_CASE("delta: the regions of the next version contain each of its tensors, once") {
  place at;
  version base;
  for (unsigned t = 0; t < 5; ++t) {
    base["t" + std::to_string(t)] = {dtype::u8, {100'000}, noise(100'000, t)};
  }
  version next = base;
  next["t3"].bytes[7] ^= 1;
  at.make("d.zt", at.save("a.safetensors", base), at.save("b.safetensors", next));
  const model before = at.load("a.safetensors");
  const model after = at.apply(before, "d.zt");
  const auto regions = after.regions();
  CHECK(regions.size() == before.regions().size() + 1);
  for (const tensor& each : after) {
    CAPTURE(std::string(each.name()));
    const auto* const first = static_cast<const std::byte*>(each.data());
    CHECK(std::ranges::count_if(regions, [&](const memory_region& region) {
            const auto* const begin = static_cast<const std::byte*>(region.data);
            return first >= begin && first + each.size_bytes() <= begin + region.bytes;
          }) == 1);
  }
}

TEST_CASE("delta: another base is refused, and nothing changes") {
  std::mt19937_64 random(3);
  place at;
  version v0 = random_version(random, 6);
  v0["w"] = {dtype::bf16, {5000}, noise(10'000, 1)};
  version v1 = v0;
  train(v1["w"], 30, random);
  version v2 = v1;
  train(v2["w"], 30, random);
  at.save("v0.safetensors", v0);
  at.save("v1.safetensors", v1);
  at.save("v2.safetensors", v2);
  at.make("d1.zt", at.path("v0.safetensors"), at.path("v1.safetensors"));
  at.make("d2.zt", at.path("v1.safetensors"), at.path("v2.safetensors"));
  const model base = at.load("v0.safetensors");
  CHECK(code_of([&] { at.apply(base, "d2.zt"); }) == errc::wrong_digest);
  owned_version memory(v0);
  CHECK(code_of([&] {
          update_async(at.host_loader, memory.destinations(), at.path("d2.zt"), future).get();
        }) == errc::wrong_digest);
  CHECK(memory.tensors == v0);
  const model second = at.apply(base, "d1.zt");
  CHECK(code_of([&] { at.apply(second, "d1.zt"); }) == errc::wrong_digest);
  CHECK(tensors_of(at.apply(second, "d2.zt")) == v2);

  SUBCASE("a tensor that the delta does not change is compared too") {
    version other = v0;
    other["layer.0/w"] = {dtype::u8, {3}, "abc"};
    at.save("other.safetensors", other);
    CHECK(code_of([&] { at.apply(at.load("other.safetensors"), "d1.zt"); }) == errc::wrong_digest);
  }
  SUBCASE("a model with more or fewer tensors is another base") {
    version other = v0;
    other["more"] = {dtype::u8, {3}, "abc"};
    at.save("more.safetensors", other);
    CHECK(code_of([&] { at.apply(at.load("more.safetensors"), "d1.zt"); }) == errc::wrong_digest);
    other = v0;
    other.erase("w");
    at.save("fewer.safetensors", other);
    CHECK(code_of([&] { at.apply(at.load("fewer.safetensors"), "d1.zt"); }) == errc::wrong_digest);
  }
  SUBCASE("a checkpoint is no delta") {
    CHECK(code_of([&] { at.apply(base, "v1.safetensors"); }) == errc::not_a_checkpoint);
  }
}

TEST_CASE("delta: a damaged delta is an error, or leads to the right version") {
  std::mt19937_64 random(4);
  place at;
  version base = random_version(random, 4);
  base["w"] = {dtype::bf16, {3000}, noise(6'000, 1)};
  base["x"] = {dtype::f32, {3000}, noise(12'000, 1)};
  version next = base;
  train(next["w"], 30, random);
  train(next["x"], 900, random);
  next["added"] = {dtype::u8, {50}, noise(50, 2)};
  delta_options options;
  options.zstd_level = 0;  // Damage then affects the changes themselves.
  at.make("d.zt", at.save("a.safetensors", base), at.save("b.safetensors", next), options);
  const std::string good = text_of(at.path("d.zt"));
  const model loaded = at.load("a.safetensors");
  unsigned refused = 0;
  for (unsigned round = 0; round < 400; ++round) {
    std::string damaged = good;
    const std::size_t position = random() % damaged.size();
    damaged[position] =
        static_cast<char>(damaged[position] ^ static_cast<char>(1U << (random() % 8)));
    if (round % 7 == 0) damaged.resize(position);
    std::ofstream(at.path("bad.zt"), std::ios::binary) << damaged;
    try {
      const version applied = tensors_of(at.apply(loaded, "bad.zt"));
      CHECK(applied == next);
    } catch (const error& e) {
      ++refused;
      CHECK(std::string(e.what()).find("bad.zt") != std::string::npos);
    }
    CHECK(tensors_of(loaded) == base);
  }
  CHECK(refused > 200);
}

TEST_CASE("delta: an update in place that fails late restores the old bytes") {
  std::mt19937_64 random(5);
  place at;
  version base;
  for (unsigned i = 0; i < 20; ++i) {
    base["t" + std::to_string(i)] = {dtype::bf16, {4000}, noise(8'000, i)};
  }
  base["whole"] = {dtype::u8, {4000}, noise(4'000, 77)};
  version next = base;
  for (auto& [name, tensor] : next) train(tensor, 50, random);
  next["whole"].bytes = std::string(4'000, 'w');
  at.make("d.zt", at.save("a.safetensors", base), at.save("b.safetensors", next));

  // Changes the expected digest of the result, for one tensor after another. The error is then
  // found only after the tensor was changed.
  std::string good = text_of(at.path("d.zt"));
  const std::size_t digests = good.rfind("result_digests");
  REQUIRE(digests != std::string::npos);
  unsigned rounds = 0;
  for (std::size_t line = good.find("crc32c ", digests); line != std::string::npos && rounds < 21;
       line = good.find("crc32c ", line + 1), ++rounds) {
    std::string damaged = good;
    char& digit = damaged[line + 8];
    digit = digit == '0' ? '1' : '0';
    std::ofstream(at.path("bad.zt"), std::ios::binary) << damaged;
    owned_version memory(base);
    CHECK(code_of([&] {
            update_async(at.host_loader, memory.destinations(), at.path("bad.zt"), future).get();
          }) == errc::wrong_digest);
    CHECK(memory.tensors == base);
  }
  CHECK(rounds == 21);
}

TEST_CASE("delta: a cancelled update leaves the old or the new version") {
  std::mt19937_64 random(6);
  place at;
  version base;
  for (unsigned i = 0; i < 40; ++i) {
    base["t" + std::to_string(i)] = {dtype::bf16, {50'000}, noise(100'000, i)};
  }
  version next = base;
  for (auto& [name, tensor] : next) train(tensor, 50, random);
  at.make("d.zt", at.save("a.safetensors", base), at.save("b.safetensors", next));
  unsigned cancelled = 0;
  for (unsigned round = 0; round < 40; ++round) {
    owned_version memory(base);
    asio::io_context context;
    asio::cancellation_signal signal;
    boost::system::error_code code;
    bool is_complete = false;
    update_async(at.host_loader, memory.destinations(), at.path("d.zt"),
                 asio::bind_cancellation_slot(
                     signal.slot(),
                     asio::bind_executor(context, [&](boost::system::error_code ec, update_result) {
                       code = ec;
                       is_complete = true;
                     })));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 12'000));
    signal.emit(asio::cancellation_type::terminal);
    context.run();
    REQUIRE(is_complete);
    if (code) {
      ++cancelled;
      CHECK(code == asio::error::operation_aborted);
      CHECK(memory.tensors == base);
    } else {
      CHECK(memory.tensors == next);
    }
  }
  CHECK(cancelled > 0);
}

TEST_CASE("delta: destinations that are not the base are refused by name") {
  std::mt19937_64 random(7);
  place at;
  version base;
  base["a"] = {dtype::f32, {4, 4}, noise(64, 1)};
  base["b"] = {dtype::f32, {4, 4}, noise(64, 2)};
  version next = base;
  train(next["a"], 500, random);
  at.make("d.zt", at.save("a.safetensors", base), at.save("b.safetensors", next));
  const auto update = [&](std::vector<destination> into) {
    return code_of(
        [&] { update_async(at.host_loader, std::move(into), at.path("d.zt"), future).get(); });
  };
  owned_version memory(base);
  auto into = memory.destinations();
  into.pop_back();
  CHECK(update(into) == errc::no_such_tensor);
  into = memory.destinations();
  into.front().strides = {1, 4};
  CHECK(update(into) == errc::invalid_destination);
  into = memory.destinations();
  into.front().shape = {16};
  CHECK(update(into) == errc::wrong_shape);
  into = memory.destinations();
  into[1] = into[0];
  CHECK(update(into) == errc::duplicate_tensor);
  CHECK(memory.tensors == base);
  next["c"] = {dtype::u8, {1}, "c"};
  at.make("more.zt", at.path("a.safetensors"), at.save("c.safetensors", next));
  CHECK(code_of([&] {
          update_async(at.host_loader, memory.destinations(), at.path("more.zt"), future).get();
        }) == errc::unsupported_feature);
  CHECK(memory.tensors == base);
}

TEST_CASE("delta: metadata of the next version that looks like a delta's is refused") {
  place at;
  version base;
  base["a"] = {dtype::u8, {8}, noise(8, 1)};
  at.save("a.safetensors", base);
  save_options options;
  options.metadata = {{"ringload.delta.note", "x"}};
  const version_tensor& a = base["a"];
  at.host_loader
      .save_async(at.path("b.safetensors"), {tensor_ref("a", a.bytes.data(), a.dtype, a.shape)},
                  options, future)
      .get();
  CHECK(code_of([&] { at.make("d.zt", at.path("a.safetensors"), at.path("b.safetensors")); }) ==
        errc::unsupported_feature);
  CHECK_FALSE(std::filesystem::exists(at.path("d.zt")));
}

TEST_CASE("delta: a changed quantised tensor of GGUF keeps its type and its shape in elements") {
  place at;
  std::string file = gguf_text().info("w", {64, 3}, 8, 0).file(3 * 68);  // Q8_0
  write_file(at.path("a.gguf"), file);
  file.back() = static_cast<char>(file.back() ^ 1);
  write_file(at.path("b.gguf"), file);
  at.make("d.zt", at.path("a.gguf"), at.path("b.gguf"));
  const model next = at.load("b.gguf");
  const model applied = at.apply(at.load("a.gguf"), "d.zt");
  const tensor_info& right = next.catalog().tensors.at(0);
  const tensor_info& found = applied.catalog().tensors.at(0);
  CHECK(right.type == "q8_0");
  CHECK(found.type == right.type);
  CHECK(found.original_shape == right.original_shape);
  CHECK(found.shape == right.shape);
  CHECK(tensors_of(applied) == tensors_of(next));
}

TEST_CASE("delta: equal bytes of another quantised type, or of another shape, are a change") {
  place at;
  const auto save = [&](const char* name, const std::vector<std::uint64_t>& dims,
                        std::uint32_t type) {
    write_file(at.path(name), gguf_text().info("w", dims, type, 0).file(4 * 18));
    return at.path(name);
  };
  const std::string base = save("a.gguf", {64, 2}, 2);    // Q4_0
  const std::string other = save("b.gguf", {64, 2}, 20);  // IQ4_NL, with blocks of the same size
  const std::string longer = save("c.gguf", {128, 1}, 2);
  for (const std::string& next : {other, longer}) {
    CAPTURE(next);
    CHECK(code_of([&] { at.make("d.zt", base, next); }) == errc::unsupported_feature);
  }
}

TEST_CASE("delta: attributes of new, changed and unchanged tensors are those of the next version") {
  place at;
  const auto save = [&](const char* name, std::int64_t scale,
                        const std::vector<const char*>& names) {
    writer out(at.path(name));
    for (const char* tensor_name : names) {
      const bool is_kept = std::string_view(tensor_name) == "kept";
      object_options options;
      options.attributes = {{"scale", attribute(is_kept ? 7 : scale)}};
      const std::string bytes = noise(64, is_kept ? 7 : static_cast<std::uint64_t>(scale));
      out.add_async(tensor_ref(tensor_name, bytes.data(), dtype::u8, {64}), options, future).get();
    }
    out.finish_async(future).get();
    return at.path(name);
  };
  const std::string base = save("a.zt", 1, {"changed", "kept"});
  const std::string next = save("b.zt", 2, {"changed", "kept", "new"});
  at.make("d.zt", base, next);
  const model applied = at.apply(at.load("a.zt"), "d.zt");
  const model right = at.load("b.zt");
  CHECK(tensors_of(applied) == tensors_of(right));
  for (const tensor_info& info : right.catalog().tensors) {
    CAPTURE(info.name);
    REQUIRE(info.attributes.size() == 1);
    const auto found = std::ranges::find(applied.catalog().tensors, info.name, &tensor_info::name);
    REQUIRE(found != applied.catalog().tensors.end());
    CHECK(found->attributes == info.attributes);
  }
}

TEST_CASE("delta: an existing file is kept if replace is off") {
  place at;
  version base;
  base["a"] = {dtype::u8, {4}, "abcd"};
  const std::string path = at.save("a.safetensors", base);
  std::ofstream(at.path("d.zt")) << "old";
  delta_options options;
  options.replace = false;
  CHECK(code_of([&] { at.make("d.zt", path, path, options); }) == boost::system::errc::file_exists);
  CHECK(text_of(at.path("d.zt")) == "old");
}

TEST_CASE("delta: a level that zstd does not have is refused, also if nothing has changed") {
  place at;
  version base;
  base["a"] = {dtype::u8, {4}, "abcd"};
  const std::string path = at.save("a.safetensors", base);
  for (const int level : {-1, 23}) {
    delta_options options;
    options.zstd_level = level;
    CHECK(code_of([&] { at.make("d.zt", path, path, options); }) == errc::invalid_saving);
  }
  CHECK_FALSE(std::filesystem::exists(at.path("d.zt")));
}
