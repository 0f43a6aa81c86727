// SPDX-License-Identifier: Apache-2.0

// NCCL on a GPU, if the machine has both. One GPU supports one rank. bench/gpu.sh sets the library
// in RINGLOAD_NCCL.

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <boost/asio/use_future.hpp>
#include <cstdlib>
#include <memory>
#include <ringload/cuda.hpp>
#include <ringload/nccl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cuda/on_device.hpp"
#include "device/cuda/raii.hpp"
#include "support/rank_load.hpp"
#include "support/rank_results.hpp"
#include "support/skip.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// Returns the path of NCCL, or an empty string if the test cannot run here.
std::string usable_nccl() {
  std::string why;
  if (cuda_device_count(&why) == 0) {
    skip("no CUDA device: " + why);
    return {};
  }
  const char* const named = std::getenv("RINGLOAD_NCCL");
  std::string library = named != nullptr && *named != 0 ? named : "libnccl.so.2";
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    skip(library + " cannot be loaded");
    return {};
  }
  return library;
}

}  // namespace

TEST_CASE("nccl_group: one rank meets, broadcasts and ends with NCCL itself") {
  const std::string library = usable_nccl();
  if (library.empty()) return;
  REQUIRE_FALSE(cuda::use_device(0));
  cuda::stream on;
  cuda::device_buffer memory;
  REQUIRE_FALSE(on.open());
  REQUIRE_FALSE(memory.take(1000));
  const auto rank = nccl_group(std::move(make_thread_ranks(1)[0]), 0, on.get(), library);
  CHECK(rank->size() == 1);
  CHECK(rank->memory() == cuda_device(0));
  rank->broadcast({memory.data(), 1000}, 0);
  rank->barrier();
}

TEST_CASE("nccl load: one rank gets models, tensors and shards on its GPU with NCCL itself") {
  const std::string library = usable_nccl();
  if (library.empty()) return;
  REQUIRE_FALSE(cuda::use_device(0));
  cuda::stream on;
  REQUIRE_FALSE(on.open());
  std::vector<shaped> tensors = {
      {"a", "F32", 4, {300, 7}}, {"b", "U8", 1, {50, 40, 3}}, {"c", "BF16", 2, {}}};
  const made_file file(made_file::as_it_is::text, shaped_text(tensors, 5));
  for (const device& target : {cuda_device(0), shared_cuda_device(0)}) {
    const auto rank = nccl_group(std::move(make_thread_ranks(1)[0]), 0, on.get(), library);
    loader with(target, small_options());
    group_load load = start_rank_load(with, *rank, file.name());
    CHECK(all_right(load, tensors, 0, 1, bytes_on_device) == "");
    const tensor fused = get(load.fused_async("two", {"a", "a"}, 1, use_future));
    std::string rows;
    for (std::size_t row = 0; row < 300; ++row) {
      const std::string once = tensors[0].bytes.substr(row * 28, 28);
      rows += once + once;
    }
    CHECK(bytes_on_device(fused) == rows);
  }
}
