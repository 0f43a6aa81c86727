// SPDX-License-Identifier: Apache-2.0

// Measures a load by one rank whose group is NCCL itself. With one rank, NCCL moves no bytes
// between cards. The rows show the costs beside the transfer: the communicator, the copies within
// the card, and the checks of calls.

#include <boost/asio/use_future.hpp>
#include <cstdlib>
#include <memory>
#include <ringload/cuda.hpp>
#include <ringload/group_load.hpp>
#include <ringload/nccl.hpp>
#include <ringload/ringload.hpp>

#include "gpu.hpp"

namespace ringload::bench {

namespace {

constexpr auto use_future = ringload::as_exception(boost::asio::use_future);

std::string milliseconds(double seconds) { return fmt::format("{:.1f} ms", seconds * 1e3); }

template <class Work>
double seconds_once(const Work& work) {
  const double begin = now();
  work();
  return now() - begin;
}

}  // namespace

void measure_rank_loads(const std::string& path) {
  const char* const named = std::getenv("RINGLOAD_NCCL");
  const std::string library = named != nullptr && *named != 0 ? named : "libnccl.so.2";
  check(cudaSetDevice(0));
  const stream on;
  std::shared_ptr<group> rank;
  const double setup = seconds_once(
      [&] { rank = nccl_group(std::move(make_thread_ranks(1)[0]), 0, on.get(), library); });
  print_row("NCCL: the communicator of one rank made", "0.1 to 1 s", milliseconds(setup));

  loader with{cuda_device(0)};
  const std::size_t bytes = with.load_async(path, use_future).get().catalog().size_bytes();
  const double alone = seconds_of(3, [&] { (void)with.load_async(path, use_future).get(); });
  print_row("a load without a group", "", rate(bytes, alone));
  const double grouped =
      seconds_of(3, [&] { (void)load_async(with, rank, path, use_future).get(); });
  print_row("a load by one rank, up to its own part", "the same", rate(bytes, grouped));

  group_load load = load_async(with, rank, path, use_future).get();
  const double whole = seconds_of(3, [&] { (void)load.model_async(use_future).get(); });
  print_row("model_async of all tensors", "> 500 GB/s", rate(bytes, whole));
  const tensor_info* largest = nullptr;
  for (const tensor_info& each : load.catalog().tensors) {
    if (each.shape.size() < 2) continue;
    if (largest == nullptr || each.bytes > largest->bytes) largest = &each;
  }
  if (largest != nullptr) {
    const double shard =
        seconds_of(3, [&] { (void)load.shard_async(largest->name, 1, use_future).get(); });
    print_row("shard_async of the largest tensor along dimension 1", "> 300 GB/s",
              rate(largest->bytes, shard));
  }
  const std::string name(load.catalog().tensors.front().name);
  const double small = seconds_of(20, [&] { (void)load.push_async(name, 0, use_future).get(); });
  print_row("push_async of the first tensor", "< 1 ms", milliseconds(small));
  load = {};
  const double ended = seconds_once([&] { rank.reset(); });
  print_row("the communicator destroyed", "< 100 ms", milliseconds(ended));
}

}  // namespace ringload::bench
