// SPDX-License-Identifier: Apache-2.0

// Each allocation of a small load into a device fails in turn. The load ends, with the correct
// bytes or with an error, and no host or device memory leaks. A separate executable, because
// failing_new replaces operator new. Runs only on the stand-in.

#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <boost/system/errc.hpp>
#include <memory>
#include <new>
#include <random>
#include <ringload/group_load.hpp>
#include <ringload/keeper.hpp>
#include <ringload/nccl.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "cuda/on_device.hpp"
#include "cuda/trained_versions.hpp"
#include "device/cuda/raii.hpp"
#include "device/cuda/runtime.hpp"
#include "support/converted.hpp"
#include "support/descriptors.hpp"
#include "support/failing_new.hpp"
#include "support/rank_load.hpp"
#include "support/rank_threads.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Small tensors that are scattered, large tensors, and tensors that can be converted.
std::vector<made_tensor> tensors() {
  std::vector<made_tensor> all = equal_tensors(40, 1000);
  all.push_back({"large", 200'000});
  all.push_back(f32("converted", 20'000));
  return all;
}

}  // namespace

TEST_CASE("cuda, no memory: at each allocation of a load in turn, it ends and keeps nothing") {
  const made_file file(tensors());
  for (const bool converts : {false, true}) {
    start_afresh();
    const load_options how = converts ? converting_to(dtype::bf16) : load_options();
    auto with = std::make_unique<loader>(cuda_device(1), small_options(2));
    CHECK(first_difference_on_device(get(with->load_async(file.name(), use_future))) == "");
    const std::size_t descriptors = open_descriptors();
    std::int64_t right = 0;
    const std::int64_t points = for_every_allocation([&] {
      const bool succeeds = succeeds_or_lacks_memory([&] {
        const model loaded = get(with->load_async(file.name(), how, use_future));
        until_failure = -1;
        if (!converts) CHECK(first_difference_on_device(loaded) == "");
      });
      if (succeeds) ++right;
    });
    MESSAGE(points << " points, " << right << " of them without consequence");
    CHECK(points > 10);
    // The loader still works.
    CHECK(first_difference_on_device(get(with->load_async(file.name(), use_future))) == "");
    CHECK(open_descriptors() == descriptors);
    with.reset();
    CHECK(left_over() == "");
    CHECK(misuse() == "");
  }
}

TEST_CASE("cuda, no memory: at each allocation of copies of tensors in turn, they end") {
  const made_file file(tensors());
  start_afresh();
  auto with = std::make_unique<loader>(cuda_device(1), small_options(2));
  load_options options;
  options.allocation = allocation::per_tensor;
  {
    const model loaded = get(with->load_async(file.name(), options, use_future));
    const tensor from = loaded.at("converted");
    const std::string wanted = bytes_on_device(from);
    const std::int64_t points = for_every_allocation([&] {
      succeeds_or_lacks_memory([&] {
        const tensor here = get(with->copy_async(from, host(), use_future));
        const tensor there = get(with->copy_async(here, {cuda_device(1), dtype::bf16}, use_future));
        const tensor beside = get(with->copy_async(from, use_future));
        until_failure = -1;
        CHECK(testing::bytes_of(here) == wanted);
        CHECK(there.dtype() == dtype::bf16);
        CHECK(bytes_on_device(beside) == wanted);
      });
    });
    CHECK(points > 30);
  }
  with.reset();
  CHECK(left_over() == "");
  CHECK(misuse() == "");
}

TEST_CASE("cuda, no memory: at each allocation of an update in turn, the device has one version") {
  using namespace ringload::testing::delta_tests;
  place at;
  version before;
  before["sparse"] = {dtype::bf16, {2'000}, noise(4'000, 1)};
  before["whole"] = {dtype::u8, {5'000}, noise(5'000, 3)};
  version after = before;
  std::mt19937_64 random(7);
  train(after["sparse"], 20, random);
  after["whole"].bytes = noise(5'000, 4);
  const std::string base = at.save("v0.safetensors", before);
  at.make("v1.delta.zt", base, at.save("v1.safetensors", after));
  for (const bool is_changed_on_host : {false, true}) {
    CAPTURE(is_changed_on_host);
    start_afresh();
    fake_cudart::expect_pageable();
    auto with = std::make_unique<loader>(cuda_device(1), small_options(2));
    const std::int64_t points = for_every_allocation([&] {
      const std::int64_t nth = until_failure.exchange(-1);
      const model memory = get(with->load_async(base, use_future));
      // Without device memory for the kernels, the host changes the tensors.
      for (unsigned i = 1; is_changed_on_host && i < 20; ++i) {
        fake_cudart::fail("cudaMalloc", i, cudaErrorMemoryAllocation);
      }
      until_failure = nth;
      const bool succeeds = succeeds_or_lacks_memory([&] {
        get(update_async(*with, destinations_of(memory), at.path("v1.delta.zt"), use_future));
      });
      until_failure = -1;
      fake_cudart::forget_failures();
      const version now = version_on_device(memory);
      // If there was no memory for the completion, the update may have succeeded.
      CHECK((now == after || (!succeeds && now == before)));
    });
    CHECK(points > 50);
    with.reset();
    CHECK(left_over() == "");
    CHECK(misuse() == "");
  }
  start_afresh();
}

TEST_CASE("cuda, no memory: at each allocation of a loader's start, it starts or says why not") {
  const made_file file(tensors());
  start_afresh();
  const std::size_t descriptors = open_descriptors();
  for_every_allocation([&] {
    try {
      loader with(cuda_device(1), small_options(2));
      until_failure = -1;
      CHECK(first_difference_on_device(get(with.load_async(file.name(), use_future))) == "");
    } catch (const error&) {
    } catch (const std::bad_alloc&) {
    }
    CHECK(left_over() == "");
  });
  CHECK(open_descriptors() == descriptors);
  CHECK(misuse() == "");
}

TEST_CASE("cuda, no memory: at each allocation of the first load to two devices in turn, it ends") {
  const made_file file(only("large", 100'000));
  start_afresh();
  const std::int64_t points = for_every_allocation([&] {
    const std::int64_t nth = until_failure.exchange(-1);
    loader with(std::vector{cuda_device(0), cuda_device(1)}, small_options(2));
    until_failure = nth;
    succeeds_or_lacks_memory([&] {
      const model loaded = get(with.load_async(file.name(), select().replicate("*"), use_future));
      until_failure = -1;
      CHECK(first_difference_on_device(loaded) == "");
    });
  });
  CHECK(points > 10);
  CHECK(left_over() == "");
  CHECK(misuse() == "");
}

TEST_CASE(
    "nccl_group, no memory: at each allocation of fail() in turn, the group ends with its reason") {
  start_afresh();
  bool more = true;
  for (std::int64_t n = 0; more; ++n) {
    CAPTURE(n);
    cuda::stream stream;
    REQUIRE_FALSE(stream.open());
    const auto ranks =
        nccl_group(std::move(make_thread_ranks(1)[0]), 0, stream.get(), FAKE_NCCL, patience);
    {
      const failing_at now(n);
      std::thread([&] { ranks->fail("the reason of the failure"); }).join();
      more = has_failed;
    }
    CHECK(what_of([&] { ranks->barrier(); }) == "rank 0: the reason of the failure");
    CHECK(n < 100);
  }
  CHECK(left_over() == "");
  CHECK(misuse() == "");
}

namespace {

// A keeper that has published a loaded model as "one".
struct published_model {
  published_model() {
    loader with(shared_host(), small_options(2));
    keeps.publish("one", get(with.load_async(file.name(), use_future)));
  }

  const made_file file{tensors()};
  const temporary_folder folder = temporary_folder::for_sockets();
  const std::string socket = folder.path() / "keeper";
  keeper keeps{socket};
};

}  // namespace

TEST_CASE("keeper, no memory: at each allocation of its thread, the keeper keeps serving") {
  const published_model kept;
  const std::int64_t points = for_every_allocation([&] {
    try {
      (void)attach(kept.socket, "one");
    } catch (const error& e) {
      // The connection ended without a reply, before or after the request was sent.
      const bool is_closed = e.code() == boost::system::errc::connection_reset ||
                             e.code() == boost::system::errc::broken_pipe;
      INFO(e.what());
      CHECK((is_closed || e.code() == errc::malformed_message));
    }
  });
  CHECK(points > 3);
  CHECK(first_difference(attach(kept.socket, "one")) == "");
}

TEST_CASE("attach_async, no memory: at each allocation in turn, the process goes on") {
  const published_model kept;
  const std::int64_t points = for_every_allocation([&] {
    try {
      const model attached = get(attach_async(kept.socket, "one", use_future));
      until_failure = -1;
      CHECK(first_difference(attached) == "");
    } catch (const std::exception& e) {
      INFO(e.what());
    }
  });
  CHECK(points > 10);
}

TEST_CASE("nccl_group, no memory: a rank that lacks memory for its group tells the other rank") {
  start_afresh();
  bool was_told = false;
  bool more = true;
  for (std::int64_t n = 0; more; ++n) {
    CAPTURE(n);
    REQUIRE(n < 1000);
    auto ranks = make_thread_ranks(2);
    std::shared_ptr<group> second = std::move(ranks[1]);
    std::string said;
    std::promise<void> counted;
    std::thread other([&] {
      const certain_memory always;
      counted.get_future().wait();
      said = what_of([&] {
        nccl_group(std::move(ranks[0]), 0, nullptr, FAKE_NCCL, std::chrono::milliseconds(20));
      });
    });
    {
      const failing_at now(n);
      counted.set_value();
      std::thread([&] {
        try {
          nccl_group(std::move(second), 1, nullptr, FAKE_NCCL, std::chrono::milliseconds(20));
        } catch (const std::exception&) {
        }
        second = nullptr;
      }).join();
      more = has_failed;
    }
    other.join();
    was_told = was_told || holds(said, "out of memory");
  }
  CHECK(was_told);
  CHECK(left_over() == "");
}

TEST_CASE("nccl load, no memory: at each allocation of the calls in turn, a call ends") {
  const made_file file(tensors());
  start_afresh();
  std::thread([&] {
    const certain_memory for_the_test;
    cuda::stream stream;
    if (cuda::use_device(1) || stream.open()) return;
    const std::int64_t points = for_every_allocation([&] {
      const std::int64_t nth = until_failure.exchange(-1);
      const auto rank =
          nccl_group(std::move(make_thread_ranks(1)[0]), 1, stream.get(), FAKE_NCCL, patience);
      loader with(cuda_device(1), small_options(2));
      until_failure = nth;
      succeeds_or_lacks_memory([&] {
        group_load load = start_rank_load(with, *rank, file.name());
        const model loaded = get(load.model_async(use_future));
        const tensor fused = get(load.fused_async("two", {"t0", "t1"}, 0, use_future));
        until_failure = -1;
        CHECK(first_difference_on_device(loaded) == "");
        CHECK(fused.size_bytes() == 2'000);
      });
      until_failure = -1;
    });
    CHECK(points > 50);
  }).join();
  CHECK(left_over() == "");
  CHECK(misuse() == "");
}

TEST_CASE("cuda, no memory: for work on a device is an error, in the thread and in another") {
  start_afresh();
  for (const int index : {0, 1}) {
    const auto failed = cuda::on_device(index, [] { throw std::bad_alloc(); });
    CHECK(failed == errc::memory_exceeded);
  }
}
