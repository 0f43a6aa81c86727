// SPDX-License-Identifier: Apache-2.0

// Calls of a group_load that fail: on all ranks, or on one of them.

#include <doctest/doctest.h>

#include <atomic>
#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <ringload/error.hpp>
#include <ringload/group_load.hpp>
#include <ringload/verify.hpp>
#include <ringload/writer.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "formats/gguf_text.hpp"
#include "support/made_checkpoint.hpp"
#include "support/rank_load.hpp"
#include "support/rank_threads.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

TEST_CASE("group_load: calls that differ are the same error on every rank, and the next is right") {
  const made_file file({f32("a", 10), f32("b", 10)});
  const auto said = all_said(3, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    group_load load = start_rank_load(with, all, file.name());
    const std::string other = all.rank() == 2 ? "b" : "a";
    const auto failed = failure_of(load.tensor_async(other, use_future));
    const auto none = code_of(load.tensor_async("c", use_future));
    const auto dimension = code_of(load.shard_async("a", 1, use_future));
    const auto rank = code_of(load.push_async("a", 3, use_future));
    const auto models = code_of(load.model_async({"a", other}, use_future));
    const auto no_model = code_of(load.model_async({"a", "c"}, use_future));
    if (get(load.model_async({}, use_future)).size() != 0) throw std::logic_error("no names");
    if (get(load.model_async({"a", "a"}, use_future)).size() != 1) throw std::logic_error("twice");
    if (get(load.tensor_async("a", use_future)).size_bytes() != 40) throw std::logic_error("a");
    if (models != errc::mismatched_call) throw std::logic_error("model of other tensors");
    if (no_model != errc::no_such_tensor) throw std::logic_error("model of c");
    if (none != errc::no_such_tensor) throw std::logic_error("c");
    if (dimension != errc::invalid_selection) throw std::logic_error("dimension");
    if (rank != errc::invalid_selection) throw std::logic_error("rank");
    if (failed->code() != errc::mismatched_call) throw std::logic_error("code");
    throw *failed;
  });
  for (const std::string& each : said) {
    CHECK(each == "rank 2: it calls tensor('b'), but rank 0 calls tensor('a')");
  }
}

TEST_CASE("group_load: files that hold other tensors are an error on every rank") {
  const made_file first({f32("a", 10)});
  const made_file second({f32("a", 11)});
  const auto said = all_said(3, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    start_rank_load(with, all, all.rank() == 1 ? second.name() : first.name());
  });
  for (const std::string& each : said) {
    CHECK(holds(each, "rank 1: it calls load 1 tensors of 44 bytes"));
    CHECK(holds(each, "but rank 0 calls load 1 tensors of 40 bytes"));
  }
}

TEST_CASE("group_load: what fails on one rank is its error there, and ends the others with it") {
  const made_file file(equal_tensors(3, 200'000));
  const auto said = all_said(3, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    start_rank_load(with, all, all.rank() == 1 ? "/no/such/file.safetensors" : file.name());
  });
  CHECK(said[1] == "/no/such/file.safetensors: there is no such file or folder");
  CHECK(said[0] == "rank 1: /no/such/file.safetensors: there is no such file or folder");
  CHECK(said[2] == said[0]);

  const auto limited = all_said(2, [&](group& all) {
    loader_options within = small_options(2, read_engine::threads);
    if (all.rank() == 1) within.arena_bytes_max = 1000;
    loader with(host(), within);
    start_rank_load(with, all, file.name());
  });
  CHECK(holds(limited[0], "rank 1: "));
  CHECK(holds(limited[1], "bytes"));
}

TEST_CASE("group_load: bytes that only name a type of blocks stay bytes for a load with a dtype") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.zt").string();
  const std::string bytes(100'000, '\7');
  writer out(path);
  object_options how_stored;
  how_stored.type = "q8_0";
  get(out.add_async(tensor_ref("w", bytes.data(), dtype::u8, {bytes.size()}, host()), how_stored,
                    use_future));
  get(out.finish_async(use_future));
  group_options how;
  how.load.dtype = dtype::f32;
  on_threads(2, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    group_load load = start_rank_load(with, all, path, how);
    const tensor whole = get(load.tensor_async("w", use_future));
    if (whole.dtype() != dtype::u8 || whole.shape().size() != 1) return std::string("another type");
    return std::string(bytes_of(whole) == bytes ? "" : "other bytes");
  });
}

TEST_CASE("group_load: a piece of another size than the tensor needs is refused, and not copied") {
  const made_file file({f32("a", 100)});
  std::atomic<bool> converts = true;
  group_options how;
  how.load.dtype = dtype::bf16;
  how.load.converts = [&](const tensor_info&) { return converts.load(); };
  const auto said_by = [&](const auto& call) {
    converts = true;
    return all_said(1, [&](group& all) {
      loader with(host(), small_options(2, read_engine::threads));
      group_load load = start_rank_load(with, all, file.name(), how);
      converts = false;  // From now on the tensor is described as F32.
      call(load);
    })[0];
  };
  const auto refused = "tensor 'a': the loaded piece has 200 bytes, expected 400";
  CHECK(said_by([](group_load& l) { get(l.tensor_async("a", use_future)); }) == refused);
  CHECK(said_by([](group_load& l) { get(l.push_async("a", 0, use_future)); }) == refused);
  CHECK(said_by([](group_load& l) { get(l.shard_async("a", 0, use_future)); }) == refused);
  CHECK(said_by([](group_load& l) { get(l.model_async(use_future)); }) == refused);
}

TEST_CASE("group_load: a shard that cuts a block is refused on all ranks, the next call works") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.gguf").string();
  const auto q8_0 = 8;
  write_file(path, gguf_text().info("w", {64, 4}, q8_0, 0).info("v", {64}, 0, 288).file(288 + 256));
  group_options how;
  how.load.dtype = dtype::f32;
  how.reading = group_reading::own;
  on_threads(3, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    group_load load = start_rank_load(with, all, path, how);
    const auto refused = failure_of(load.shard_async("w", 1, use_future));
    if (!refused || refused->code() != errc::invalid_selection) return std::string("not refused");
    if (!holds(refused->what(), "tensor 'w': the range from 0 to 22 of dimension 1 cuts a "))
      return std::string(refused->what());
    const auto fused = code_of(load.fused_async("x", {"w"}, 1, use_future));
    if (fused != errc::invalid_selection) return std::string("fused");
    if (get(load.shard_async("w", 0, use_future)).shape()[1] != 64) return std::string("rows");
    return std::string(get(load.tensor_async("v", use_future)).size_bytes() == 256 ? "" : "v");
  });
  on_threads(2, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    group_load load = start_rank_load(with, all, path, how);
    const tensor shard = get(load.shard_async("w", 1, use_future));
    return std::string(shard.shape()[1] == 32 ? "" : "a shard of whole blocks");
  });
}

TEST_CASE("group_load: options that ranks cannot have are refused") {
  const made_file file({f32("a", 10)});
  const auto refused = [&](const std::function<void(group_options&)>& change) {
    group_options options;
    change(options);
    return all_said(1, [&](group& all) {
      loader with(host(), small_options(2, read_engine::threads));
      start_rank_load(with, all, file.name(), options);
    })[0];
  };
  CHECK(holds(refused([](group_options& o) { o.load.select.names({"a"}); }), "no selection"));
  CHECK(holds(refused([](group_options& o) { o.load.memory = tensor_memory::mapped; }), "mapped"));
  const checksum_list listed;
  CHECK(holds(refused([&](group_options& o) { o.load.verify = &listed; }), "checksum list"));
  CHECK(refused([](group_options&) {}) == "");
}
