// SPDX-License-Identifier: Apache-2.0

// Ranks that load one checkpoint together.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <ringload/error.hpp>
#include <ringload/group_load.hpp>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "formats/gguf_text.hpp"
#include "support/made_checkpoint.hpp"
#include "support/rank_load.hpp"
#include "support/rank_results.hpp"
#include "support/rank_threads.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// A group that a program implements: a queue of messages between each pair of ranks. receive()
// waits for a message until `lost_after`.
constexpr std::chrono::seconds lost_after{60};

struct message_queues {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<std::vector<std::byte>>> messages;
  bool failed = false;
  std::size_t empty_messages = 0;
  std::size_t sent_messages = 0;

  std::size_t count_sent() {
    const std::lock_guard lock(mutex);
    return sent_messages;
  }
};

class queue_group final : public group {
 public:
  queue_group(message_queues& queues, std::uint32_t rank, std::uint32_t ranks)
      : queues_(queues), rank_(rank), ranks_(ranks) {}

  std::uint32_t rank() const noexcept override { return rank_; }
  std::uint32_t size() const noexcept override { return ranks_; }
  void send(std::span<const std::byte> bytes, std::uint32_t to) override {
    const std::lock_guard lock(queues_.mutex);
    if (bytes.empty()) ++queues_.empty_messages;
    ++queues_.sent_messages;
    queues_.messages[{rank_, to}].emplace_back(bytes.begin(), bytes.end());
    queues_.changed.notify_all();
  }
  void receive(std::span<std::byte> bytes, std::uint32_t from) override {
    std::unique_lock lock(queues_.mutex);
    if (bytes.empty()) ++queues_.empty_messages;
    auto& waiting = queues_.messages[{from, rank_}];
    const bool came = queues_.changed.wait_for(lock, lost_after,
                                               [&] { return queues_.failed || !waiting.empty(); });
    if (!came || queues_.failed) throw error(errc::rank_failed, "rank", "no message");
    if (waiting.front().size() != bytes.size()) {
      throw error(errc::malformed_message, "rank", "a message of another length");
    }
    std::ranges::copy(waiting.front(), bytes.begin());
    waiting.pop_front();
  }
  void fail(std::string_view) noexcept override { interrupt(); }
  void interrupt() noexcept override {
    const std::lock_guard lock(queues_.mutex);
    queues_.failed = true;
    queues_.changed.notify_all();
  }

 private:
  message_queues& queues_;
  const std::uint32_t rank_;
  const std::uint32_t ranks_;
};

// Loads `file` with two ranks, and makes `call` on both. Returns the number of messages that were
// sent for the call and for two barriers.
std::size_t count_messages(const made_file& file,
                           const std::function<void(group_load&, std::uint32_t)>& call) {
  message_queues queues;
  const auto run = [&](std::uint32_t rank) {
    queue_group all(queues, rank, 2);
    loader with(host(), small_options(2, read_engine::threads));
    group_load load = start_rank_load(with, all, file.name());
    all.barrier();
    const std::size_t before = queues.count_sent();
    call(load, rank);
    all.barrier();
    return queues.count_sent() - before;
  };
  auto second = std::async(std::launch::async, run, 1);
  const std::size_t messages = run(0);
  second.get();
  return messages;
}

}  // namespace

TEST_CASE("group_load: a group of the program's own never sees an empty message") {
  // With five ranks, the last ranks have no part of `few`, and no rank has a part of `empty`.
  std::vector<shaped> tensors = {{"long", "F32", 4, {100, 7}},
                                 {"few", "U8", 1, {3, 5}},
                                 {"empty", "F32", 4, {0, 3}},
                                 {"cut", "I64", 8, {11, 30}}};
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 5));
  for (const std::uint32_t ranks : {2U, 5U}) {
    message_queues queues;
    std::vector<std::string> wrong(ranks);
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          try {
            queue_group all(queues, rank, ranks);
            loader with(host(), small_options(2, read_engine::threads));
            group_load load = start_rank_load(with, all, file.name());
            wrong[rank] = all_right(load, tensors, rank, ranks);
          } catch (const std::exception& e) {
            wrong[rank] = e.what();
          }
        });
      }
    }
    for (const std::string& each : wrong) CHECK(each == "");
    CHECK(queues.empty_messages == 0);
  }
}

TEST_CASE("group_load: a model of many tensors needs few messages") {
  std::vector<made_tensor> tensors;
  for (int i = 0; i < 300; ++i) tensors.push_back({"t" + std::to_string(i), 1'000});
  const made_file file(tensors);
  std::array<std::size_t, 2> sizes{};
  const std::size_t messages = count_messages(file, [&](group_load& load, std::uint32_t rank) {
    sizes[rank] = get(load.model_async(use_future)).size();
  });
  CHECK(sizes[0] == 300);
  CHECK(sizes[1] == 300);
  // Each rank sends its half once. The check of the call and the barriers send 6 messages.
  CHECK(messages <= 8);
}

TEST_CASE("group: a scatter sends no empty part") {
  message_queues queues;
  queue_group root(queues, 0, 3);
  const std::vector<std::byte> one(1);
  const std::vector<std::span<const std::byte>> parts = {{}, one, {}};
  root.scatter(parts, {}, 0);
  queue_group last(queues, 2, 3);
  last.scatter({}, {}, 0);
  CHECK(queues.empty_messages == 0);
}

TEST_CASE("group_load: what ranks get of random checkpoints is what the file holds") {
  std::mt19937_64 random(11);
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U, 7U}) {
    for (int round = 0; round < 4; ++round) {
      std::vector<shaped> tensors = random_shapes(random);
      const made_file file(made_file::as_it_is::text, shaped_text(tensors, random()));
      group_options how;
      if (round == 3) how.reading = group_reading::own;
      on_threads(ranks, [&](group& all) {
        loader with(host(), small_options(2, read_engine::threads));
        group_load load = start_rank_load(with, all, file.name(), how);
        return all_right(load, tensors, all.rank(), all.size());
      });
    }
  }
}

// The ranks read only `large` in blocks of rows. With 3 or 4 ranks, the block of the last rank is
// shorter.
std::vector<shaped> large_and_small() {
  return {{"small", "F32", 4, {9, 5}}, {"large", "BF16", 2, {130, 16'384}}, {"end", "U8", 1, {77}}};
}

TEST_CASE(
    "group_load: what ranks get of a tensor that they read in blocks is what the file holds") {
  std::vector<shaped> tensors = large_and_small();
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 21));
  for (const std::uint32_t ranks : {2U, 3U, 4U, 5U}) {
    on_threads(ranks, [&](group& all) {
      loader with(host(), small_options(2, read_engine::threads));
      group_load load = start_rank_load(with, all, file.name());
      return all_right(load, tensors, all.rank(), all.size());
    });
  }
}

TEST_CASE("group_load: the ranks exchange no bytes for the blocks that they have read") {
  std::vector<shaped> tensors = large_and_small();
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 22));
  const std::size_t messages = count_messages(file, [&](group_load& load, std::uint32_t rank) {
    const tensor shard = get(load.shard_async("large", 0, use_future));
    CHECK(bytes_of(shard) == shard_of(tensors[1], 0, rank, 2));
  });
  // The check of the call and the barriers send 6 messages.
  CHECK(messages <= 6);
}

TEST_CASE("group_load: a program that changes its shard gets the bytes of the file afterwards") {
  std::vector<shaped> tensors = large_and_small();
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 23));
  for (const std::uint32_t ranks : {1U, 2U, 3U}) {
    on_threads(ranks, [&](group& all) {
      loader with(host(), small_options(2, read_engine::threads));
      group_load load = start_rank_load(with, all, file.name());
      std::vector<tensor> changed;
      const auto take_and_change = [&] {
        changed.push_back(get(load.shard_async("large", 0, use_future)));
        const tensor& shard = changed.back();
        const bool is_right = bytes_of(shard) == shard_of(tensors[1], 0, all.rank(), ranks);
        std::memset(shard.data(), 7, shard.size_bytes());
        return is_right;
      };
      if (!take_and_change()) return std::string("the first shard differs");
      if (!take_and_change()) return std::string("the second shard differs");
      const std::string wrong = all_right(load, tensors, all.rank(), ranks);
      if (!wrong.empty()) return wrong;
      take_and_change();
      const tensor fused = get(load.fused_async("f", {"large", "large"}, 0, use_future));
      const std::string part = shard_of(tensors[1], 0, all.rank(), ranks);
      if (bytes_of(fused) != part + part) return std::string("the fused tensor differs");
      const std::string sevens(changed.front().size_bytes(), '\7');
      return std::string(bytes_of(changed.front()) == sevens ? "" : "a shard was overwritten");
    });
  }
}

TEST_CASE("group_load: all ranks together read the checkpoint once, each an equal part") {
  const made_file file({f32("a", 3'000'000), f32("b", 5), f32("c", 1'000'000)});
  std::vector<std::uint64_t> read(4);
  on_threads(4, [&](group& all) {
    loader with(host(), small_options(2));
    const group_load load = start_rank_load(with, all, file.name());
    read[all.rank()] = load.stats().bytes_direct + load.stats().bytes_buffered;
    return std::string();
  });
  std::uint64_t sum = 0;
  for (const std::uint64_t each : read) {
    CHECK(each >= 4'000'000 - 8192);
    CHECK(each <= 4'000'000 + 16'384);
    sum += each;
  }
  CHECK(sum <= 16'000'020 * 101 / 100);
}

TEST_CASE("group_load: ranks that read their own shards read no more than those") {
  std::vector<shaped> tensors = {{"a", "F32", 4, {1000, 1000}}, {"b", "F32", 4, {1000, 1000}}};
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 5));
  on_threads(4, [&](group& all) {
    loader with(host(), small_options(2));
    group_options how;
    how.reading = group_reading::own;
    group_load load = start_rank_load(with, all, file.name(), how);
    const tensor shard = get(load.shard_async("a", 0, use_future));
    if (bytes_of(shard) != shard_of(tensors[0], 0, all.rank(), 4)) return std::string("differs");
    const load_stats read = load.stats();
    if (read.bytes_direct + read.bytes_buffered > 1'000'000 + 2 * 4096) return std::string("more");
    const tensor whole = get(load.push_async("b", 1, use_future));
    return std::string(load.stats().bytes == (whole ? 5'000'000 : 1'000'000) ? "" : "other bytes");
  });
}

TEST_CASE("group_load: ranks that verify and ranks that do not are refused, and nothing is sent") {
  const made_file file({f32("a", 1'000), f32("b", 1'000)});
  on_threads(2, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    group_options how;
    if (all.rank() == 0) how.load.verify.stored = embedded_digests::if_present;
    const auto code = code_of(load_async(with, borrowed(all), file.name(), how, use_future));
    return std::string(code == errc::mismatched_call ? "" : "not refused: " + code.message());
  });
}

TEST_CASE("group_load: options that no load accepts are refused when the load starts") {
  const made_file file({f32("a", 1'000)});
  for (const group_reading reading : {group_reading::divided, group_reading::own}) {
    for (const bool is_dtype : {true, false}) {
      on_threads(2, [&](group& all) {
        loader with(host(), small_options(2, read_engine::threads));
        group_options how;
        how.reading = reading;
        if (is_dtype) how.load.dtype = dtype::i32;
        if (!is_dtype) how.load.populate = true;
        const auto code = code_of(load_async(with, borrowed(all), file.name(), how, use_future));
        const errc expected = is_dtype ? errc::unsupported_dtype : errc::invalid_options;
        if (code != expected) return "not refused: " + code.message();
        how = group_options();
        how.reading = reading;
        start_rank_load(with, all, file.name(), how);  // The group can still be used.
        return std::string();
      });
    }
  }
}

TEST_CASE("group_load: options that are invalid on one rank only are a mismatch on the others") {
  const made_file file({f32("a", 1'000)});
  for (const std::uint32_t invalid : {0U, 2U}) {
    on_threads(3, [&](group& all) {
      loader with(host(), small_options(2, read_engine::threads));
      group_options options;
      if (all.rank() == invalid) options.load.populate = true;
      const auto code = code_of(load_async(with, borrowed(all), file.name(), options, use_future));
      const errc expected = all.rank() == invalid ? errc::invalid_options : errc::mismatched_call;
      if (code != expected) return "another error: " + code.message();
      start_rank_load(with, all, file.name());  // The group can still be used.
      return std::string();
    });
  }
}

TEST_CASE("group_load: a rank with invalid options keeps its error if another rank fails to open") {
  const made_file file({f32("a", 1'000)});
  for (const std::uint32_t invalid : {0U, 1U}) {
    on_threads(2, [&](group& all) {
      loader with(host(), small_options(2, read_engine::threads));
      const bool is_invalid = all.rank() == invalid;
      group_options options;
      if (is_invalid) options.load.populate = true;
      const std::string path = is_invalid ? file.name() : "/no/such/file.safetensors";
      const auto code = code_of(load_async(with, borrowed(all), path, options, use_future));
      const errc expected = is_invalid ? errc::invalid_options : errc::source_not_found;
      return std::string(code == expected ? "" : "another error: " + code.message());
    });
  }
}

TEST_CASE("group_load: shards of dequantised tensors are parts of the whole tensor") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.gguf").string();
  const std::string blocks =
      gguf_text().info("v", {64}, 8, 0).info("w", {64, 6}, 8, 96).file(96 + 6 * 68);  // Q8_0
  write_file(path, blocks);
  group_options how;
  how.load.dtype = dtype::f32;
  loader alone(host(), small_options(2));
  const model whole = get(alone.load_async(path, how.load, use_future));
  for (const group_reading reading : {group_reading::divided, group_reading::own}) {
    CAPTURE(static_cast<int>(reading));
    how.reading = reading;
    std::vector<std::pair<const char*, std::uint32_t>> shards = {{"w", 0U}};
    // A rank that reads its own shard cannot begin inside a block.
    if (reading == group_reading::divided) shards.insert(shards.end(), {{"v", 0U}, {"w", 1U}});
    on_threads(3, [&](group& all) {
      loader with(host(), small_options(2, read_engine::threads));
      group_load load = start_rank_load(with, all, path, how);
      for (const auto& [name, dim] : shards) {
        const tensor loaded = whole.at(name);
        shaped right = {name, "F32", 4, {loaded.shape().begin(), loaded.shape().end()}};
        right.bytes = bytes_of(loaded);
        const tensor shard = get(load.shard_async(name, dim, use_future));
        if (bytes_of(shard) != shard_of(right, dim, all.rank(), 3)) {
          return name + std::string(" differs in dimension ") + std::to_string(dim);
        }
      }
      return std::string();
    });
  }
}

TEST_CASE("group_load: ranks with their own reads do not divide blocks of a quantised tensor") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.gguf").string();
  write_file(path, gguf_text().info("w", {1024, 4}, 8, 0).file(4 * 1088));  // Q8_0
  on_threads(3, [&](group& all) {  // The last rank's range of the 4 rows is empty.
    loader with(host(), small_options(2, read_engine::threads));
    group_options how;
    how.reading = group_reading::own;
    group_load load = start_rank_load(with, all, path, how);
    const auto code = code_of(load.shard_async("w", 0, use_future));
    return std::string(code == errc::unsupported_feature ? "" : "not refused: " + code.message());
  });
}

TEST_CASE("group_load: shards of several tensors are fused in the order of their names") {
  std::vector<shaped> tensors = {{"q", "F32", 4, {6, 4}},
                                 {"k", "F32", 4, {3, 4}},
                                 {"v", "F32", 4, {5, 4}},
                                 {"other", "BF16", 2, {6, 4}},
                                 {"wide", "F32", 4, {6, 5}}};
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 3));
  on_threads(3, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    group_load load = start_rank_load(with, all, file.name());
    const tensor qkv = get(load.fused_async("qkv", {"v", "q", "k"}, 0, use_future));
    const auto part = [&](std::size_t t, std::size_t dim) {
      return shard_of(tensors[t], dim, all.rank(), 3);
    };
    if (qkv.name() != "qkv" || qkv.shape()[1] != 4) return std::string("it is not qkv");
    if (bytes_of(qkv) != part(2, 0) + part(0, 0) + part(1, 0)) return std::string("rows differ");
    const tensor wide = get(load.fused_async("w", {"q", "wide"}, 1, use_future));
    std::string rows;
    const std::string a = part(0, 1);
    const std::string b = part(4, 1);
    for (std::size_t r = 0; r < 6; ++r) {
      rows += a.substr(r * a.size() / 6, a.size() / 6) + b.substr(r * b.size() / 6, b.size() / 6);
    }
    if (bytes_of(wide) != rows) return std::string("columns differ");
    if (code_of(load.fused_async("x", {"q", "other"}, 0, use_future)) != errc::wrong_dtype) {
      return std::string("another type is fused");
    }
    if (code_of(load.fused_async("x", {"q", "wide"}, 0, use_future)) != errc::wrong_shape) {
      return std::string("another shape is fused");
    }
    return std::string(code_of(load.fused_async("x", {}, 0, use_future)) == errc::invalid_selection
                           ? ""
                           : "nothing is fused");
  });
}

TEST_CASE("group_load: tensors are converted by who reads them") {
  std::vector<shaped> tensors = {{"a", "BF16", 2, {7, 8}}};
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 8));
  on_threads(3, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    group_options how;
    how.load.dtype = dtype::f32;
    group_load load = start_rank_load(with, all, file.name(), how);
    const tensor whole = get(load.tensor_async("a", use_future));
    if (whole.dtype() != dtype::f32) return std::string("another type");
    const model all_tensors = get(load.model_async(use_future));
    if (all_tensors.at("a").dtype() != dtype::f32) return std::string("another type in the model");
    if (bytes_of(all_tensors.at("a")) != bytes_of(whole)) return std::string("another model");
    // A BF16 is the upper half of the same F32.
    for (std::size_t i = 0; i < 56; ++i) {
      std::uint16_t stored = 0;
      std::uint32_t landed = 0;
      std::memcpy(&stored, tensors[0].bytes.data() + 2 * i, 2);
      std::memcpy(&landed, static_cast<const char*>(whole.data()) + 4 * i, 4);
      const bool is_nan = (stored & 0x7FFFU) > 0x7F80U;
      if (!is_nan && landed != std::uint32_t{stored} << 16U) return std::string("other numbers");
    }
    return std::string();
  });
}
