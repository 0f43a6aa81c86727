// SPDX-License-Identifier: Apache-2.0

// Loads a model that is larger than the available memory. The tensors are returned one by one, in
// the order of the checkpoint. When the program destroys a tensor, the memory is used for later
// tensors.
//
//   load_through_window CHECKPOINT WINDOW_MIB

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

asio::awaitable<void> visit(ringload::loader& loader, std::string source, std::uint64_t window) {
  ringload::tensor_stream stream = co_await loader.stream_async(source, window);

  std::uint64_t bytes = 0;
  std::optional<ringload::tensor> next = co_await stream.next_async();
  while (next) {
    bytes += next->size_bytes();
    next.reset();  // The window can reuse the memory.
    next = co_await stream.next_async();
  }
  std::cout << stream.progress().tensors << " tensors, " << bytes << " bytes, at most "
            << loader.memory().tensor_bytes_peak << " bytes of memory\n";
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: load_through_window CHECKPOINT WINDOW_MIB\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader;
    asio::co_spawn(context, visit(loader, argv[1], std::strtoull(argv[2], nullptr, 10) << 20),
                   [](std::exception_ptr failure) {
                     if (failure) std::rethrow_exception(failure);
                   });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
