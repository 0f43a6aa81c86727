// SPDX-License-Identifier: Apache-2.0

// Cancels a load that takes too long. The load and the timer run at the same time. The operation
// that completes first cancels the other. A cancelled load completes when none of its buffers is in
// use any more. Its memory is freed.
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
