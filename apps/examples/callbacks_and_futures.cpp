// SPDX-License-Identifier: Apache-2.0

// Without coroutines: a future to wait for, and a callback.
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

    // For a program without an event loop. get() throws what the load ended with.
    std::future<ringload::model> future = loader.load_async(argv[1], asio::use_future);
    std::cout << "future: " << future.get().size() << " tensors\n";

    // Called on the executor that it is bound to, here by the thread in context.run().
    asio::io_context context;
    loader.load_async(argv[1], asio::bind_executor(
                                   context, [](std::exception_ptr failure, ringload::model model) {
                                     if (failure) std::rethrow_exception(failure);
                                     std::cout << "callback: " << model.size() << " tensors\n";
                                   }));
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
