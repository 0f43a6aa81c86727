// SPDX-License-Identifier: Apache-2.0

// NCCL on a GPU, if the machine has both. One GPU supports one rank. bench/gpu.sh sets the library
// in RINGLOAD_NCCL.

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <ringload/cuda.hpp>
#include <ringload/nccl.hpp>
#include <string>
#include <utility>

#include "device/cuda/raii.hpp"
#include "support/skip.hpp"

using namespace ringload;
using namespace ringload::testing;

TEST_CASE("nccl_group: one rank meets, broadcasts and ends with NCCL itself") {
  std::string why;
  if (cuda_device_count(&why) == 0) {
    skip("no CUDA device: " + why);
    return;
  }
  const char* const named = std::getenv("RINGLOAD_NCCL");
  const std::string library = named != nullptr && *named != 0 ? named : "libnccl.so.2";
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    skip(library + " cannot be loaded");
    return;
  }
  REQUIRE_FALSE(cuda::use_device(0));
  cuda::stream on;
  cuda::device_buffer memory;
  REQUIRE_FALSE(on.open());
  REQUIRE_FALSE(memory.take(1000));
  const auto rank = nccl_group(std::move(make_thread_ranks(1)[0]), 0, on.get(), library);
  CHECK(rank->size() == 1);
  CHECK(rank->memory() == device_kind::cuda);
  rank->broadcast({memory.data(), 1000}, 0);
  rank->barrier();
}
