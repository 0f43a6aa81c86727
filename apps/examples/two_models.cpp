// SPDX-License-Identifier: Apache-2.0

// Loads two models at the same time with one loader. Both loads share the buffers of the loader.
//
//   two_models CHECKPOINT CHECKPOINT

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <string>
#include <tuple>

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;

asio::awaitable<void> load(ringload::loader& loader, std::string one, std::string other) {
  // If one load fails, the other load is cancelled.
  auto both = loader.load_async(one) && loader.load_async(other);
  auto models = co_await std::move(both);
  std::cout << one << ": " << std::get<0>(models).size() << " tensors\n";
  std::cout << other << ": " << std::get<1>(models).size() << " tensors\n";
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: two_models CHECKPOINT CHECKPOINT\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader;
    asio::co_spawn(context, load(loader, argv[1], argv[2]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
