// SPDX-License-Identifier: Apache-2.0

// Uses each tensor as soon as its own bytes are loaded, while other tensors are still being read.
//
//   use_as_they_land CHECKPOINT

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <iostream>
#include <optional>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

asio::awaitable<void> use(ringload::loader& loader, std::string source) {
  ringload::load_operation load = co_await loader.start_async(source);
  if (load.catalog().tensors.empty()) co_return;
  const std::string last = load.catalog().tensors.back().name;

  // Waiting for a tensor by its name gives priority to its reads.
  ringload::tensor wanted = co_await load.tensor_async(last);
  std::cout << "first wanted: " << wanted.name() << '\n';

  // Returns the remaining tensors in the order in which they are loaded. An empty result means that
  // all tensors have been returned.
  std::optional<ringload::tensor> next = co_await load.next_async();
  while (next) {
    const ringload::load_stats stats = load.progress();
    std::cout << next->name() << ": " << next->size_bytes() << " bytes (" << stats.tensors << " of "
              << stats.tensors_total << " tensors)\n";
    next = co_await load.next_async();
  }
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: use_as_they_land CHECKPOINT\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader;
    asio::co_spawn(context, use(loader, argv[1]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
