// SPDX-License-Identifier: Apache-2.0

// Gives up a load that takes too long. Whichever of the two ends first cancels the other; a load
// that is cancelled ends when no buffer of it is in use any more, and leaves nothing behind.
//
//   cancel_with_deadline CHECKPOINT MILLISECONDS

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <string>
#include <variant>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;

asio::awaitable<void> load(ringload::loader& loader, std::string source,
                           asio::steady_timer& timer) {
  auto race = loader.load_async(source) || timer.async_wait(asio::use_awaitable);
  auto first = co_await std::move(race);
  if (const auto* model = std::get_if<ringload::model>(&first)) {
    std::cout << model->size() << " tensors\n";
  } else {
    std::cout << "not in time\n";
  }
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: cancel_with_deadline CHECKPOINT MILLISECONDS\n";
    return 2;
  }
  try {
    asio::io_context context;
    asio::steady_timer timer(context, std::chrono::milliseconds(std::atoi(argv[2])));
    ringload::loader loader;
    asio::co_spawn(context, load(loader, argv[1], timer), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
