// SPDX-License-Identifier: Apache-2.0

// Loads a checkpoint without coroutines: first with a future, then with a callback.
//
//   callbacks_and_futures CHECKPOINT

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <exception>
#include <future>
#include <iostream>
#include <ringload/ringload.hpp>

namespace asio = boost::asio;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: callbacks_and_futures CHECKPOINT\n";
    return 2;
  }
  try {
    ringload::loader loader;

    // A future suits a program without an event loop. get() throws ringload::error, which contains
    // the place of a failure.
    std::future<ringload::model> future =
        loader.load_async(argv[1], ringload::as_exception(asio::use_future));
    std::cout << "future: " << future.get().size() << " tensors\n";

    // The callback is bound to an executor, so the thread in context.run() calls the callback. The
    // callback receives a failure as an error code. The place of the failure is in `where`.
    asio::io_context context;
    ringload::diagnostics where;
    const auto print = [&where](boost::system::error_code code, ringload::model model) {
      if (code) {
        std::cout << "callback: " << where.message() << '\n';
      } else {
        std::cout << "callback: " << model.size() << " tensors\n";
      }
    };
    loader.load_async(argv[1],
                      asio::bind_executor(context, ringload::bind_diagnostics(where, print)));
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
