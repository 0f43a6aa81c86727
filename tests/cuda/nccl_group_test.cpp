// SPDX-License-Identifier: Apache-2.0

// Ranks whose messages are in device memory, with a stand-in for NCCL.

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <ringload/cuda.hpp>
#include <ringload/nccl.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "device/cuda/copy_to_host.hpp"
#include "device/cuda/raii.hpp"
#include "support/rank_threads.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::shared_ptr<group> borrowed_group(group& all) { return {std::shared_ptr<void>(), &all}; }

// The stream of a rank, and device memory that is filled with `fill`.
class rank_memory {
 public:
  rank_memory(std::size_t bytes, unsigned char fill) : bytes_(bytes) {
    if (cuda::use_device(0) || on.open() || memory_.take(bytes)) throw std::runtime_error("memory");
    set(fill);
  }
  void set(unsigned char fill) {
    const std::vector<unsigned char> from(bytes_, fill);
    (void)cuda::code_of(
        cudaMemcpyAsync(memory_.data(), from.data(), bytes_, cudaMemcpyHostToDevice, on.get()));
    (void)cuda::code_of(cudaStreamSynchronize(on.get()));
  }
  std::span<std::byte> bytes() const { return {memory_.data(), bytes_}; }
  // Bytes [begin, begin + count).
  bool holds(unsigned char value, std::size_t begin, std::size_t count) const {
    if (count == 0) return true;
    std::vector<unsigned char> found(count);
    (void)cuda::code_of(cudaMemcpyAsync(found.data(), memory_.data() + begin, count,
                                        cudaMemcpyDeviceToHost, on.get()));
    (void)cuda::code_of(cudaStreamSynchronize(on.get()));
    return std::ranges::all_of(found, [&](unsigned char b) { return b == value; });
  }

  cuda::stream on;

 private:
  const std::size_t bytes_;
  cuda::device_buffer memory_;
};

std::unique_ptr<group> nccl_of(group& all, const rank_memory& own,
                               std::chrono::milliseconds timeout = patience) {
  return nccl_group(borrowed_group(all), 0, own.on.get(), FAKE_NCCL, timeout);
}

void set_async_error(int of) {
  void* const library = ::dlopen(FAKE_NCCL, RTLD_NOW);
  reinterpret_cast<void (*)(int)>(::dlsym(library, "fake_nccl_async_error"))(of);
  ::dlclose(library);
}

// The stand-in of NCCL calls `work` at each broadcast. Null ends this.
void at_broadcasts(void (*work)()) {
  void* const library = ::dlopen(FAKE_NCCL, RTLD_NOW);
  reinterpret_cast<void (*)(void (*)())>(::dlsym(library, "fake_nccl_at_broadcasts"))(work);
  ::dlclose(library);
}

// Calls a function of the stand-in of NCCL that returns a count.
int count_of(const char* function) {
  void* const library = ::dlopen(FAKE_NCCL, RTLD_NOW);
  const int count = reinterpret_cast<int (*)()>(::dlsym(library, function))();
  ::dlclose(library);
  return count;
}

// The number of communicators that were aborted in this process.
int aborted_communicators() { return count_of("fake_nccl_aborts"); }
// The number of broadcasts in this process.
int broadcasts() { return count_of("fake_nccl_broadcasts"); }

// Waits until `count` returns more than `before`.
bool becomes_more(int (*count)(), int before) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (count() == before && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  return count() > before;
}

}  // namespace

TEST_CASE("nccl_group: messages, broadcasts and scatters reach the memory of the other devices") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  on_threads(3, [](group& all) {
    rank_memory own(3000, static_cast<unsigned char>(all.rank() + 1));
    rank_memory other(3000, 99);
    const auto ranks = nccl_of(all, own);
    if (ranks->rank() != all.rank() || ranks->size() != 3) return std::string("another rank");
    if (ranks->memory() != cuda_device(0)) return std::string("another memory");
    if (all.rank() == 0) ranks->send(own.bytes().first(2000), 2);
    if (all.rank() == 2) {
      ranks->receive(other.bytes().subspan(500, 2000), 0);
      if (!other.holds(1, 500, 2000)) return std::string("a message differs");
      if (!other.holds(99, 0, 500)) return std::string("a message is in another place");
    }
    ranks->send({}, (all.rank() + 1) % 3);
    other.set(static_cast<unsigned char>(10 + all.rank()));
    ranks->broadcast(other.bytes(), 1);
    if (all.rank() != 1 && !other.holds(11, 0, 3000)) return std::string("a broadcast differs");
    own.set(7);
    std::vector<std::span<const std::byte>> parts;
    for (std::size_t r = 0; r < 3; ++r) parts.push_back(own.bytes().subspan(0, 1000 * r));
    ranks->scatter(all.rank() == 2 ? std::span(std::as_const(parts))
                                   : std::span<const std::span<const std::byte>>(),
                   other.bytes().first(1000 * all.rank()), 2);
    if (!other.holds(7, 0, 1000 * all.rank())) return std::string("a part differs");
    ranks->barrier();
    return std::string();
  });
}

TEST_CASE("nccl_group: what NCCL reports ends the call, and the ranks by their reason") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  const auto said = all_said(2, [](group& all) {
    const rank_memory own(1000, 1);
    const auto ranks = nccl_of(all, own);
    all.barrier();  // The error must be the error of a call, not of the setup.
    if (all.rank() == 0) {
      set_async_error(6);
      const std::string first = what_of([&] { ranks->receive(own.bytes(), 1); });
      set_async_error(0);
      const std::string second = what_of([&] { ranks->receive(own.bytes(), 1); });
      ranks->fail(first);
      throw std::runtime_error(first + " | " + second);
    }
    ranks->barrier();
  });
  const std::string first =
      "NCCL: another rank: remote process exited or there was a network error";
  CHECK(said[0] == first + " | rank 0: an earlier call was aborted");
  CHECK(holds(said[1], "rank 0: "));
}

TEST_CASE("nccl_group: a call that the device does not end is given up, and can be interrupted") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  on_threads(1, [](group& all) {
    const rank_memory own(1000, 1);
    for (const bool interrupted : {false, true}) {
      const auto hosts = std::move(make_thread_ranks(1)[0]);
      const auto ranks = nccl_of(*hosts, own, std::chrono::milliseconds(interrupted ? 60'000 : 30));
      // With one rank, NCCL copies nothing. Only the stream is blocked.
      at_broadcasts(&fake_cudart::hold);
      const int aborts_before = aborted_communicators();
      const int broadcasts_before = broadcasts();
      std::jthread other;
      if (interrupted) {
        other = std::jthread([&] {
          // A call that is interrupted before it begins leaves the communicator as it is.
          if (becomes_more(&broadcasts, broadcasts_before)) ranks->interrupt();
        });
      }
      const std::string why = what_of([&] { ranks->broadcast(own.bytes(), 0); });
      at_broadcasts(nullptr);
      fake_cudart::let_go();
      (void)cuda::code_of(cudaStreamSynchronize(own.on.get()));
      if (!holds(why, interrupted ? "interrupted" : "did not answer within 30 ms")) return why;
      // Without an abort, NCCL's kernels would occupy the device forever.
      // A thread of the library aborts the communicator, possibly after the call has returned.
      if (!becomes_more(&aborted_communicators, aborts_before)) {
        return std::string("the communicator was not aborted");
      }
    }
    (void)all;
    return std::string();
  });
}

TEST_CASE("nccl_group: memory of a call that failed is not written when the stream goes on") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  fake_cudart::free_waits(false);
  on_threads(1, [](group&) {
    const rank_memory own(1000, 1);
    const rank_memory theirs(1000, 2);
    auto target = std::make_unique<rank_memory>(1000, 3);
    auto hosts = make_thread_ranks(2);
    std::unique_ptr<group> second;
    std::jthread other([&] { second = nccl_of(*hosts[1], theirs); });
    const auto first = nccl_of(*hosts[0], own, std::chrono::milliseconds(100));
    other.join();
    // Work of the program on the stream, which the device does not carry out yet.
    fake_cudart::hold();
    (void)cuda::code_of(cudaMemsetAsync(own.bytes().data(), 0, 1000, own.on.get()));
    other = std::jthread([&] { (void)what_of([&] { second->send(theirs.bytes(), 0); }); });
    const std::string why = what_of([&] { first->receive(target->bytes(), 1); });
    target.reset();
    first->fail(why);
    fake_cudart::let_go();
    (void)cuda::code_of(cudaStreamSynchronize(own.on.get()));
    const bool is_expected =
        why == "NCCL: ncclRecv: earlier work on the stream did not end within 100 ms";
    return is_expected ? std::string() : "the error is '" + why + "'";
  });
}

TEST_CASE("nccl_group: the longest time limit does not overflow the clock") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  on_threads(2, [](group& all) {
    const rank_memory own(1000, static_cast<unsigned char>(all.rank()));
    const auto ranks = nccl_of(all, own, std::chrono::milliseconds::max());
    ranks->broadcast(own.bytes(), 1);
    return own.holds(1, 0, 1000) ? std::string() : std::string("a broadcast differs");
  });
}

TEST_CASE("nccl_group: a group that exchanges memory of GPUs cannot set up NCCL") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  on_threads(1, [](group& all) {
    const rank_memory own(1000, 1);
    const auto ranks = nccl_of(all, own);
    const std::string why = what_of([&] { (void)nccl_of(*ranks, own); });
    const bool is_refused =
        why == "nccl_group: the group exchanges memory of cuda:0, expected host memory";
    return is_refused ? std::string() : "the error is '" + why + "'";
  });
}

TEST_CASE("nccl_group: a rank that ends long before the others does not wait for them for ever") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  on_threads(1, [](group& all) {
    (void)all;
    const rank_memory own(1000, 1);
    const rank_memory theirs(1000, 2);
    auto hosts = make_thread_ranks(2);
    std::unique_ptr<group> second;
    constexpr std::chrono::milliseconds limit{300};
    std::jthread other([&] { second = nccl_of(*hosts[1], theirs, limit); });
    std::unique_ptr<group> first = nccl_of(*hosts[0], own, limit);
    other.join();
    // NCCL blocks the first call until the second, which the same thread makes.
    first.reset();
    second.reset();
    return std::string();
  });
}

TEST_CASE("nccl_group: a call that fails on one rank alone ends within the time limit") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  on_threads(1, [](group& all) {
    (void)all;
    const rank_memory own(1000, 1);
    const rank_memory theirs(1000, 2);
    auto hosts = make_thread_ranks(2);
    std::unique_ptr<group> second;
    std::jthread other([&] { second = nccl_of(*hosts[1], theirs); });
    std::unique_ptr<group> first = nccl_of(*hosts[0], own, std::chrono::milliseconds(300));
    other.join();
    set_async_error(6);
    const std::string why = what_of([&] { first->receive(own.bytes(), 1); });
    set_async_error(0);
    return holds(why, "remote process exited") ? std::string() : why;
  });
}

TEST_CASE("nccl_group: a rank whose peer does not set up NCCL fails within the time limit") {
  const fresh_runtime now;
  const auto said = all_said(2, [](group& all) {
    if (all.rank() == 1) {
      // The part of the setup that does not use NCCL.
      std::array<std::byte, 128> id = {};
      all.broadcast(id, 0);
      all.barrier();
      return;
    }
    (void)nccl_group(borrowed_group(all), 0, nullptr, FAKE_NCCL, std::chrono::milliseconds(100));
  });
  CHECK(said[0] == "NCCL: ncclCommInitRankConfig: a rank did not answer within 100 ms");
}

TEST_CASE("nccl_group: each call whose peer never calls fails with the reason, or is interrupted") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  const rank_memory own(1000, 1);
  struct lonely_call {
    std::string name;
    std::function<void(group&)> make;
  };
  const std::vector<std::span<const std::byte>> parts = {own.bytes().first(10),
                                                         own.bytes().subspan(10, 10)};
  const std::vector<lonely_call> calls = {
      {"ncclSend", [&](group& rank) { rank.send(own.bytes(), 1); }},
      {"ncclRecv", [&](group& rank) { rank.receive(own.bytes(), 1); }},
      {"ncclBroadcast", [&](group& rank) { rank.broadcast(own.bytes(), 0); }},
      {"ncclBroadcast", [&](group& rank) { rank.broadcast(own.bytes(), 1); }},
      {"ncclGroupEnd", [&](group& rank) { rank.scatter(parts, own.bytes().first(10), 0); }},
      {"ncclGroupEnd", [&](group& rank) { rank.scatter({}, own.bytes().first(10), 1); }},
  };
  for (const lonely_call& call : calls) {
    for (const bool interrupted : {false, true}) {
      CAPTURE(call.name);
      CAPTURE(interrupted);
      auto hosts = make_thread_ranks(2);
      std::unique_ptr<group> idle;
      std::jthread other([&] { idle = nccl_of(*hosts[1], own, std::chrono::milliseconds(100)); });
      const std::unique_ptr<group> rank =
          nccl_of(*hosts[0], own, interrupted ? patience : std::chrono::milliseconds(100));
      other.join();
      if (interrupted) other = std::jthread([&] { rank->interrupt(); });
      // The peer ends its communicator meanwhile, so that this rank need not wait.
      std::jthread peer;
      if (interrupted) peer = std::jthread([&] { idle.reset(); });
      const std::string why = what_of([&] { call.make(*rank); });
      if (interrupted) {
        other.join();
        CHECK(holds(why, "interrupted"));
      } else {
        CHECK(why == "NCCL: " + call.name + ": a rank did not answer within 100 ms");
        CHECK(holds(what_of([&] { call.make(*rank); }), "an earlier call was aborted"));
      }
    }
  }
}

TEST_CASE("nccl_group: a communicator takes the next call when the call before is launched") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  on_threads(2, [](group& all) {
    rank_memory own(1000, static_cast<unsigned char>(all.rank()));
    const auto ranks = nccl_of(all, own);
    for (unsigned turn = 0; turn < 50; ++turn) {
      own.set(static_cast<unsigned char>(2 * turn + all.rank()));
      if (all.rank() == 0) {
        ranks->send(own.bytes(), 1);
        ranks->receive(own.bytes(), 1);
      } else {
        ranks->receive(own.bytes(), 0);
        ranks->send(own.bytes(), 0);
      }
      if (!own.holds(static_cast<unsigned char>(2 * turn), 0, 1000)) {
        return std::string("a message differs");
      }
    }
    return std::string();
  });
}

TEST_CASE("nccl_group: a library that is not there, or is not NCCL, is an error on every rank") {
  const fresh_runtime now;
  const auto said = all_said(2, [](group& all) {
    const char* const library = all.rank() == 1 ? "/no/such/libnccl.so.2" : FAKE_NCCL;
    (void)nccl_group(borrowed_group(all), 0, nullptr, library);
  });
  CHECK(holds(said[1], "NCCL: /no/such/libnccl.so.2: cannot open"));
  CHECK(holds(said[0], "rank 1: NCCL: /no/such/libnccl.so.2"));
  CHECK(holds(what_of([] {
                const auto one = std::move(make_thread_ranks(1)[0]);
                (void)nccl_group(borrowed_group(*one), 0, nullptr, "libc.so.6");
              }),
              "ncclGetUniqueId"));
}
