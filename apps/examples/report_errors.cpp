// SPDX-License-Identifier: Apache-2.0

// Prints the code and the place of each failure. The conditions of the code distinguish a missing
// file from a damaged file.
//
//   report_errors CHECKPOINT

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

asio::awaitable<void> load(ringload::loader& loader, std::string source) {
  try {
    ringload::model model = co_await loader.load_async(source);
    std::cout << model.size() << " tensors\n";
  } catch (const ringload::error& failure) {
    // A place is, for example, "model.safetensors: tensor 'wte.weight': byte 4,096". Parts that are
    // not known are left out.
    std::cout << "place: " << failure.place() << '\n';
    std::cout << "code: " << failure.code().message() << '\n';
    if (failure.code() == ringload::condition::not_found) {
      std::cout << "there is no such checkpoint\n";
    } else if (failure.code() == ringload::condition::malformed_file) {
      std::cout << "the checkpoint is damaged\n";
    }
  }
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: report_errors CHECKPOINT\n";
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
