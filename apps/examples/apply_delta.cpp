// SPDX-License-Identifier: Apache-2.0

// Creates the delta of two versions of a checkpoint, and applies the delta to the first version in
// memory.
//
//   apply_delta BASE NEXT DELTA.zt

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

asio::awaitable<void> follow(ringload::loader& loader, std::string base, std::string next,
                             std::string delta) {
  ringload::delta_result made = co_await ringload::save_delta_async(loader, delta, base, next);

  ringload::model old_version = co_await loader.load_async(base);
  ringload::model new_version = co_await ringload::apply_async(loader, old_version, delta);

  std::cout << made.elements_changed << " elements changed, " << new_version.size()
            << " tensors in the new version\n";
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: apply_delta BASE NEXT DELTA.zt\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader(context);
    asio::co_spawn(context, follow(loader, argv[1], argv[2], argv[3]),
                   [](std::exception_ptr failure) {
                     if (failure) std::rethrow_exception(failure);
                   });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
