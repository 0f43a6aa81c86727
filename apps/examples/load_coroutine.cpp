// SPDX-License-Identifier: Apache-2.0

// Loads a checkpoint in a coroutine, and prints the number and the size of its tensors.
//
//   load_coroutine CHECKPOINT

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

asio::awaitable<void> load(ringload::loader& loader, std::string source) {
  ringload::model model = co_await loader.load_async(source);
  std::cout << model.size() << " tensors, " << model.stats().bytes << " bytes in "
            << model.stats().seconds << " s\n";
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: load_coroutine CHECKPOINT\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader;
    asio::co_spawn(context, load(loader, argv[1]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
