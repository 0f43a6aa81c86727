// SPDX-License-Identifier: Apache-2.0

// Ranks that load one checkpoint into the memory of GPUs, with a stand-in for NCCL.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <ringload/group_load.hpp>
#include <ringload/nccl.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda/failing_calls.hpp"
#include "cuda/fresh_runtime.hpp"
#include "cuda/on_device.hpp"
#include "device/backend.hpp"
#include "device/cuda/raii.hpp"
#include "formats/gguf_text.hpp"
#include "support/converted.hpp"
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

// The NCCL group, the stream and the loader of one rank. The ranks use the devices in turn.
class gpu_rank {
 public:
  explicit gpu_rank(group& all, std::chrono::milliseconds timeout = patience)
      : gpu_rank(all, cuda_device(static_cast<int>(all.rank()) % fake_cudart::devices), timeout) {}
  gpu_rank(group& all, device target, std::chrono::milliseconds timeout = patience)
      : index_(target.index()) {
    auto failed = cuda::use_device(index_);
    if (!failed) failed = stream_.open();
    if (failed) throw error(failed, "the stream of the rank", {});
    ranks = nccl_group(borrowed(all), index_, stream_.get(), FAKE_NCCL, timeout);
    with = std::make_unique<loader>(target, small_options(2, read_engine::threads));
  }

  group_load load(const std::string& source, const group_options& options = {}) {
    return start_rank_load(*with, *ranks, source, options);
  }

 private:
  const int index_;
  cuda::stream stream_;

 public:
  std::unique_ptr<group> ranks;
  std::unique_ptr<loader> with;
};

// Returns the bytes between two tensors of a model.
std::string bytes_between(const tensor& first, const tensor& second) {
  const auto* const begin = static_cast<const std::byte*>(first.data()) + first.size_bytes();
  std::string bytes(static_cast<std::size_t>(static_cast<const std::byte*>(second.data()) - begin),
                    'x');
  const auto copied = first.device()
                          .maker()(first.device().index())
                          ->copy_to_host(begin, std::as_writable_bytes(std::span(bytes)));
  return copied ? bytes : message_of(copied.error());
}

std::string wrong_place(const tensor& t, int index) {
  if (t.device() != cuda_device(index)) return "it is in memory of " + t.device().name();
  if (reinterpret_cast<std::uintptr_t>(t.data()) % 256 != 0) return "it is misaligned";
  return {};
}

}  // namespace

TEST_CASE("nccl load: what GPUs get of random checkpoints is what the file holds") {
  std::mt19937_64 random(23);
  for (const std::uint32_t ranks : {1U, 2U, 3U}) {
    for (int round = 0; round < 3; ++round) {
      const fresh_runtime now;
      fake_cudart::expect_pageable();
      std::vector<shaped> tensors = random_shapes(random);
      const made_file file(made_file::as_it_is::text, shaped_text(tensors, random()));
      group_options options;
      if (round == 2) options.reading = group_reading::own;
      on_threads(ranks, [&](group& all) {
        const int index = static_cast<int>(all.rank()) % fake_cudart::devices;
        gpu_rank rank(all, round == 1 ? shared_cuda_device(index) : cuda_device(index));
        group_load load = rank.load(file.name(), options);
        return all_right(load, tensors, all.rank(), all.size(), bytes_on_device);
      });
    }
  }
}

TEST_CASE("nccl load: tensors of each call are on the GPU of the rank, aligned for kernels") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  std::vector<shaped> tensors = {
      {"a", "U8", 1, {6, 7}}, {"b", "F32", 4, {9, 2}}, {"c", "F32", 4, {9, 3}}};
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 5));
  on_threads(2, [&](group& all) {
    gpu_rank rank(all);
    group_load load = rank.load(file.name());
    const tensor fused = get(load.fused_async("bc", {"b", "c"}, 1, use_future));
    std::string rows;
    const std::string b = shard_of(tensors[1], 1, all.rank(), 2);
    const std::string c = shard_of(tensors[2], 1, all.rank(), 2);
    for (std::size_t r = 0; r < 9; ++r) {
      rows += b.substr(r * b.size() / 9, b.size() / 9) + c.substr(r * c.size() / 9, c.size() / 9);
    }
    if (bytes_on_device(fused) != rows) return std::string("the fused tensor differs");
    std::vector<tensor> results = {fused, get(load.tensor_async("a", use_future)),
                                   get(load.shard_async("a", 1, use_future))};
    const model loaded = get(load.model_async(use_future));
    if (bytes_between(loaded[0], loaded[1]) != std::string(256 - 42, '\0')) {
      return std::string("the bytes between two tensors are not 0");
    }
    for (const tensor& each : loaded) results.push_back(each);
    for (const tensor& each : results) {
      const std::string wrong = wrong_place(each, static_cast<int>(all.rank()));
      if (!wrong.empty()) return std::string(each.name()) + ": " + wrong;
    }
    return std::string();
  });
}

TEST_CASE(
    "nccl load: tensors are converted and dequantised on the GPU of the rank that reads them") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  const temporary_folder folder;
  const std::string path = (folder.path() / "a.gguf").string();
  write_file(path, gguf_text().info("v", {64}, 8, 0).info("w", {64, 6}, 8, 96).file(96 + 6 * 68));
  const std::vector<made_tensor> converted = {{"f16", 2 * 6'006, "F16", 2},
                                              {"bf16", 2 * 777, "BF16", 2}};
  const made_file file(converted);
  for (const std::string& source : {path, file.name()}) {
    CAPTURE(source);
    group_options options;
    options.load.dtype = dtype::f32;
    loader alone(host(), small_options(2));
    const model whole = get(alone.load_async(source, options.load, use_future));
    on_threads(3, [&](group& all) {
      gpu_rank rank(all);
      group_load load = rank.load(source, options);
      for (const tensor& expected : whole) {
        const std::string name(expected.name());
        shaped right = {name, "F32", 4, {expected.shape().begin(), expected.shape().end()}};
        right.bytes = bytes_of(expected);
        if (bytes_on_device(get(load.tensor_async(name, use_future))) != right.bytes) {
          return name + " differs";
        }
        for (std::uint32_t dim = 0; dim < right.shape.size(); ++dim) {
          const tensor shard = get(load.shard_async(name, dim, use_future));
          if (bytes_on_device(shard) != shard_of(right, dim, all.rank(), 3)) {
            return name + " differs in dimension " + std::to_string(dim);
          }
        }
      }
      return std::string();
    });
  }
}

TEST_CASE("nccl load: a loader of another device than the group is refused by name") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  const made_file file({f32("a", 10)});
  const auto refused = [&](device target, bool has_nccl) {
    return all_said(1, [&](group& all) {
      gpu_rank rank(all, cuda_device(0));
      loader with(target, small_options(2, read_engine::threads));
      start_rank_load(with, has_nccl ? *rank.ranks : all, file.name());
    })[0];
  };
  CHECK(refused(cuda_device(0), false) ==
        "group_load: the loader's device is cuda:0, but the group exchanges memory of host");
  CHECK(refused(host(), true) ==
        "group_load: the loader's device is host, but the group exchanges memory of cuda:0");
  CHECK(refused(cuda_device(1), true) ==
        "group_load: the loader's device is cuda:1, but the group exchanges memory of cuda:0");
  CHECK(refused(cuda_device(0), true) == "");
}

TEST_CASE("nccl load: ranks that read their own bytes need no group for the memory of GPUs") {
  const fresh_runtime now;
  std::vector<shaped> tensors = {{"a", "F32", 4, {10, 30}}, {"few", "U8", 1, {2, 3}}};
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 5));
  group_options options;
  options.reading = group_reading::own;
  on_threads(3, [&](group& all) {
    loader with(cuda_device(1), small_options(2, read_engine::threads));
    group_load load = start_rank_load(with, all, file.name(), options);
    return all_right(load, tensors, all.rank(), all.size(), bytes_on_device);
  });
}

TEST_CASE("nccl load: calls and files that differ are the same error on every rank") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  const made_file file({f32("a", 10), f32("b", 10)});
  const made_file other_file({f32("a", 11)});
  const auto said = all_said(3, [&](group& all) {
    gpu_rank rank(all);
    group_load load = rank.load(file.name());
    const auto failed = failure_of(load.tensor_async(all.rank() == 2 ? "b" : "a", use_future));
    if (code_of(load.tensor_async("c", use_future)) != errc::no_such_tensor) return;
    if (bytes_on_device(get(load.tensor_async("a", use_future))).size() != 40) return;
    if (failed) throw *failed;
  });
  for (const std::string& each : said) {
    CHECK(each == "rank 2: it calls tensor('b'), but rank 0 calls tensor('a')");
  }
  const auto differ = all_said(2, [&](group& all) {
    gpu_rank rank(all);
    rank.load(all.rank() == 1 ? other_file.name() : file.name());
  });
  for (const std::string& each : differ) CHECK(holds(each, "rank 1: it calls load 1 tensors"));
}

TEST_CASE("nccl load: a rank that cannot open the file is the error of the others") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  const made_file file({f32("a", 10)});
  const auto said = all_said(3, [&](group& all) {
    gpu_rank rank(all);
    rank.load(all.rank() == 1 ? "/no/such/file.safetensors" : file.name());
  });
  CHECK(said[1] == "/no/such/file.safetensors: there is no such file or folder");
  CHECK(said[0] == "rank 1: /no/such/file.safetensors: there is no such file or folder");
  CHECK(said[2] == said[0]);
}

TEST_CASE("nccl load: a rank whose GPU has no room ends the others, which wait in NCCL") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  const made_file file({{"a", 2'000'000}, {"b", 2'000'000}});
  const auto said = all_said(2, [&](group& all) {
    gpu_rank rank(all);
    group_load load = rank.load(file.name());
    cuda::device_buffer other_memory;
    if (all.rank() == 1 && other_memory.take(fake_cudart::memory_bytes - 5'000'000)) return;
    get(load.model_async(use_future));
  });
  CHECK(holds(said[1], "the tensors need 4,000,256 bytes, cuda:1 has "));
  CHECK(said[0] == "rank 1: " + said[1]);
}

TEST_CASE("nccl load: a rank whose copies fail ends the others, which wait in NCCL") {
  struct failing_copy {
    const char* function;
    std::function<void(group_load&)> call;
  };
  // Rank 1 has read `late`, so the first copy is its own.
  const std::vector<failing_copy> copies = {
      {"cudaMemcpyAsync", [](group_load& load) { get(load.tensor_async("late", use_future)); }},
      {"cudaMemcpy2DAsync", [](group_load& load) { get(load.shard_async("late", 1, use_future)); }},
  };
  std::vector<shaped> tensors = {{"early", "U8", 1, {50, 40}}, {"late", "U8", 1, {50, 40}}};
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 5));
  for (const failing_copy& each : copies) {
    CAPTURE(each.function);
    const fresh_runtime now;
    fake_cudart::expect_pageable();
    const auto said = all_said(2, [&](group& all) {
      gpu_rank rank(all);
      group_load load = rank.load(file.name());
      all.barrier();
      if (all.rank() == 1) fake_cudart::fail(each.function, 1, cudaErrorIllegalAddress);
      all.barrier();
      each.call(load);
    });
    CHECK(holds(said[1], "cudaErrorIllegalAddress"));
    CHECK(said[0] == "rank 1: " + said[1]);
  }
}

TEST_CASE("nccl load: a rank that never calls, or gives up, is an error within the time limit") {
  constexpr std::chrono::milliseconds limit{2000};
  const made_file file({f32("a", 1'000)});
  for (const bool gives_up : {false, true}) {
    CAPTURE(gives_up);
    const fresh_runtime now;
    fake_cudart::expect_pageable();
    std::promise<void> over;
    const auto said = all_said(
        2,
        [&](group& all) {
          gpu_rank rank(all, limit);
          group_load load = rank.load(file.name());
          if (all.rank() == 1) {
            if (gives_up) rank.ranks->fail("it gives up");
            over.get_future().wait_for(patience);
            return;
          }
          const auto failed = failure_of(load.tensor_async("a", use_future));
          over.set_value();
          if (failed) throw *failed;
        },
        limit);
    CHECK(said[0] ==
          (gives_up ? "rank 1: it gives up" : "rank 1: no message arrived within 2000 ms"));
  }
}

TEST_CASE("nccl load: each call of CUDA that fails is the error of the load, which keeps nothing") {
  std::vector<made_tensor> tensors = equal_tensors(6, 100);
  tensors.push_back({"large", 200'000});
  const made_file file(tensors);
  const auto load_alone = [&](boost::system::error_code& code) -> std::string {
    try {
      const auto all = std::move(make_thread_ranks(1)[0]);
      gpu_rank rank(*all, cuda_device(1));
      group_load load = rank.load(file.name());
      const model loaded = get(load.model_async(use_future));
      std::string wrong = first_difference_on_device(loaded);
      if (wrong.empty()) get(load.fused_async("two", {"t0", "t1"}, 0, use_future));
      return wrong;
    } catch (const error& e) {
      // The stand-in of NCCL returns an error of its own if its copies fail.
      if (e.code() != errc::rank_failed) code = e.code();
      return e.what();
    }
  };
  for_every_failing_call([&](boost::system::error_code& code) {
    fake_cudart::expect_pageable();
    // A thread of its own, because the rank changes the current device.
    return std::async(std::launch::async, load_alone, std::ref(code)).get();
  });
}
