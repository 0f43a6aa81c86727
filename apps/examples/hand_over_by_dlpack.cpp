// SPDX-License-Identifier: Apache-2.0

// Passes tensors to another library without a copy, with DLPack. A library that includes
// <dlpack/dlpack.h> casts the pointer to DLManagedTensorVersioned.
//
//   hand_over_by_dlpack CHECKPOINT

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <exception>
#include <iostream>
#include <ringload/dlpack.hpp>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;
namespace dlpack = ringload::dlpack;

// Represents a function of the other library, which does not use ringload. The function owns the
// tensor that it receives.
void take(dlpack::managed_tensor_versioned* given) {
  const dlpack::tensor& tensor = given->dl_tensor;
  std::cout << tensor.ndim << " dimensions, " << int{tensor.dtype.bits} << " bits, at "
            << tensor.data << '\n';
  given->deleter(given);
}

asio::awaitable<void> hand_over(ringload::loader& loader, std::string source) {
  std::size_t taken = 0;
  ringload::model model = co_await loader.load_async(source);
  for (const ringload::tensor& tensor : model) {
    // The memory of the tensor is valid until the other library calls the deleter.
    take(ringload::to_dlpack(tensor));
    ++taken;
  }
  std::cout << taken << " tensors taken\n";
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: hand_over_by_dlpack CHECKPOINT\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader;
    asio::co_spawn(context, hand_over(loader, argv[1]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
