// SPDX-License-Identifier: Apache-2.0

// Loads a checkpoint with several ranks. Here, the ranks are threads of one process. Each rank
// reads an equal part of the bytes. Then the ranks exchange the bytes that they need.
//
//   load_by_ranks CHECKPOINT RANKS

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <mutex>
#include <ringload/group_load.hpp>
#include <ringload/ringload.hpp>
#include <string>
#include <thread>
#include <vector>

namespace asio = boost::asio;

std::mutex output;

asio::awaitable<void> load(ringload::loader& loader, std::shared_ptr<ringload::group> group,
                           std::string source) {
  const std::uint32_t rank = group->rank();
  ringload::group_load load = co_await ringload::load_async(loader, group, source);

  // All ranks make the same calls in the same order.
  std::uint64_t bytes = 0;
  for (const ringload::tensor_info& info : load.catalog().tensors) {
    ringload::tensor part = co_await load.shard_async(info.name, 0);
    bytes += part.size_bytes();
  }
  const std::lock_guard lock(output);
  std::cout << "rank " << rank << ": " << bytes << " bytes\n";
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: load_by_ranks CHECKPOINT RANKS\n";
    return 2;
  }
  try {
    const auto ranks = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
    std::vector<std::unique_ptr<ringload::group>> groups = ringload::make_thread_ranks(ranks);
    std::vector<std::exception_ptr> failures(ranks);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        asio::io_context context;
        ringload::loader loader;
        asio::co_spawn(context, load(loader, std::move(groups[rank]), argv[1]),
                       [&, rank](std::exception_ptr failure) { failures[rank] = failure; });
        context.run();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
