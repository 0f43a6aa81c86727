// SPDX-License-Identifier: Apache-2.0

// Copies within the memory of a device.

#include "device/cuda/row_copier.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <span>
#include <string>
#include <vector>

#include "cuda/fresh_runtime.hpp"
#include "device/backend.hpp"
#include "support/made_checkpoint.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

constexpr std::size_t memory_bytes = 10'000;

void require(boost::system::error_code failed) {
  if (failed) throw error(failed, "the scene", {});
}

// Two allocations of the device 1. The first has random bytes, and the second has bytes 'x'.
struct device_scene {
  device_scene() {
    fake_cudart::expect_pageable();
    require(cuda::use_device(1));
    require(source.take(memory_bytes));
    require(target.take(memory_bytes));
    require(on.open());
    put(source, source_bytes);
    put(target, std::string(memory_bytes, 'x'));
  }

  void put(const cuda::device_buffer& into, const std::string& bytes) const {
    require(cuda::code_of(cudaMemcpyAsync(into.data(), bytes.data(), bytes.size(),
                                          cudaMemcpyHostToDevice, on.get())));
  }
  std::string bytes_of(const cuda::device_buffer& from) const {
    std::string bytes(memory_bytes, '\0');
    require(cuda::code_of(cudaMemcpyAsync(bytes.data(), from.data(), memory_bytes,
                                          cudaMemcpyDeviceToHost, on.get())));
    return bytes;
  }

  const std::string source_bytes = noise(memory_bytes, 7);
  cuda::device_buffer source;
  cuda::device_buffer target;
  cuda::stream on;
};

// Rows, one row, a range that is cleared, and copies of no bytes.
std::vector<row_copy> copies_between(const std::byte* source, std::byte* target) {
  return {{source + 3, target + 100, 5, 7, 11, 6},
          {source + 2'000, target + 1'000, 1'500},
          {nullptr, target + 3'001, 77},
          {source + 9, target + 4'000, 8, 3, 400, 500},
          {source, target, 0},
          {source, target, 4, 0, 4, 4}};
}

// Returns the text of `work`, which runs in a new thread, because it changes the current device.
std::string in_thread(const std::function<std::string()>& work) {
  return std::async(std::launch::async, work).get();
}

}  // namespace

TEST_CASE(
    "row_copier: rows are copied and cleared as in host memory, with small and large strides") {
  for (const std::uint64_t large_stride : {cuda::stride_max, std::uint64_t{100}}) {
    CAPTURE(large_stride);
    const fresh_runtime now;
    CHECK(in_thread([&]() -> std::string {
            const device_scene scene;
            std::string expected(memory_bytes, 'x');
            copy_rows_on_host(copies_between(std::as_bytes(std::span(scene.source_bytes)).data(),
                                             std::as_writable_bytes(std::span(expected)).data()));
            cuda::row_copier copier(large_stride);
            require(copier.open());
            require(copier.copy(copies_between(scene.source.data(), scene.target.data())));
            if (scene.bytes_of(scene.target) != expected) return "the target differs";
            return scene.bytes_of(scene.source) == scene.source_bytes ? "" : "the source differs";
          }) == "");
    CHECK(fake_cudart::calls()["cudaMemcpy2DAsync"] == (large_stride == 100 ? 1 : 2));
  }
}

TEST_CASE("row_copier: a call that fails is the error, and no copy is in flight afterwards") {
  for (const char* const function : {"cudaMemcpyAsync", "cudaMemcpy2DAsync", "cudaMemsetAsync",
                                     "cudaEventRecord", "cudaEventSynchronize"}) {
    CAPTURE(function);
    const fresh_runtime now;
    CHECK(in_thread([&]() -> std::string {
            const device_scene scene;
            cuda::row_copier copier;
            require(copier.open());
            fake_cudart::fail(function, 1, cudaErrorIllegalAddress);
            const auto copies = copies_between(scene.source.data(), scene.target.data());
            if (copier.copy(copies).value() != cudaErrorIllegalAddress) return "another error";
            return fake_cudart::waiting_copies() == 0 ? "" : "a copy is in flight";
          }) == "");
  }
}

TEST_CASE("cuda: the backend copies rows before it is attached, and names the device in errors") {
  const fresh_runtime now;
  CHECK(in_thread([&]() -> std::string {
          const device_scene scene;
          const auto memory = cuda_device(1).maker()(1);
          const row_copy copy = {scene.source.data(), scene.target.data(), memory_bytes};
          if (!memory->copy_rows({&copy, 1})) return "it fails";
          if (scene.bytes_of(scene.target) != scene.source_bytes) return "the target differs";
          fake_cudart::fail("cudaMemcpyAsync", 1, cudaErrorIllegalAddress);
          const auto failed = memory->copy_rows({&copy, 1});
          return failed ? "it succeeds" : message_of(failed.error());
        }) ==
        "cuda:1: copying within the device: cudaErrorIllegalAddress: what CUDA says about it");
}
