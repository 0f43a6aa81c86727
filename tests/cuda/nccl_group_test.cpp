// SPDX-License-Identifier: Apache-2.0

// Ranks whose messages are memory of a device, by a library that stands in for NCCL.

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstring>
#include <memory>
#include <ringload/group_load.hpp>
#include <ringload/nccl.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "device/cuda/copy_to_host.hpp"
#include "device/cuda/raii.hpp"
#include "support/made_checkpoint.hpp"
#include "support/rank_threads.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

std::shared_ptr<group> borrowed_group(group& all) { return {std::shared_ptr<void>(), &all}; }

// A rank's stream, and memory of its device that holds `fill`.
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

}  // namespace

TEST_CASE("nccl_group: messages, broadcasts and scatters reach the memory of the other devices") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  on_threads(3, [](group& all) {
    rank_memory own(3000, static_cast<unsigned char>(all.rank() + 1));
    rank_memory other(3000, 99);
    const auto ranks = nccl_of(all, own);
    if (ranks->rank() != all.rank() || ranks->size() != 3) return std::string("another rank");
    if (ranks->memory() != device_kind::cuda) return std::string("another memory");
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
  const std::string first = "NCCL: a call: remote process exited or there was a network error";
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
      // With one rank NCCL copies nothing: only the stream does not come to an end.
      fake_cudart::hold();
      std::jthread other;
      if (interrupted) other = std::jthread([&] { ranks->interrupt(); });
      const std::string why = what_of([&] { ranks->broadcast(own.bytes(), 0); });
      fake_cudart::let_go();
      (void)cuda::code_of(cudaStreamSynchronize(own.on.get()));
      if (!holds(why, interrupted ? "interrupted" : "did not end within 30 ms")) return why;
    }
    (void)all;
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

TEST_CASE("nccl_group: a load of ranks is of memory of the host") {
  const fresh_runtime now;
  fake_cudart::expect_pageable();
  const made_file file({f32("a", 10)});
  const auto said = all_said(1, [&](group& all) {
    const rank_memory own(8, 1);
    const auto ranks = nccl_of(all, own);
    loader with(host(), small_options(2, read_engine::threads));
    get(load_async(with, borrowed_group(*ranks), file.name(), {}, boost::asio::use_future));
  });
  CHECK(said[0] == "group_load: the group is for device memory, expected a group for host memory");
}
