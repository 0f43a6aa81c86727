// SPDX-License-Identifier: Apache-2.0

// Loads a checkpoint into the memory of the first GPU.
//
//   load_to_gpu CHECKPOINT

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <iostream>
#include <ringload/cuda.hpp>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

asio::awaitable<void> load(ringload::loader& loader, std::string source) {
  ringload::model model = co_await loader.load_async(source);
  for (const ringload::tensor& tensor : model) {
    // data() is an address of the device. The tensor is complete, so no CUDA stream has to wait.
    std::cout << tensor.name() << ": " << tensor.size_bytes() << " bytes at " << tensor.data()
              << '\n';
  }
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: load_to_gpu CHECKPOINT\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader{ringload::cuda_device(0)};
    asio::co_spawn(context, load(loader, argv[1]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
