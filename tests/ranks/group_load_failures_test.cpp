// SPDX-License-Identifier: Apache-2.0

// Calls of a group_load that fail: on all ranks, or on one of them.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <ringload/error.hpp>
#include <ringload/group_load.hpp>
#include <ringload/verify.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/rank_load.hpp"
#include "support/rank_threads.hpp"
#include "support/small_options.hpp"
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
