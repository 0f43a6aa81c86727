// SPDX-License-Identifier: Apache-2.0

// Holds one copy of a model for all processes of a machine. The program then attaches the model, as
// another process would.
//
//   keep_model CHECKPOINT SOCKET

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <iostream>
#include <ringload/keeper.hpp>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

asio::awaitable<void> keep(ringload::loader& loader, std::string source, std::string socket) {
  ringload::model model = co_await loader.load_async(source);
  ringload::keeper keeper{socket};
  keeper.publish("model", model);

  // Usually in another process. The attached model uses the same memory, read-only and without a
  // copy.
  ringload::model attached = ringload::attach(socket, "model");
  std::cout << attached.size() << " tensors attached\n";

  // Publishes a second version, and attaches that version.
  ringload::model second = co_await loader.load_async(source);
  keeper.publish("model", second);
  const ringload::kept_version current = ringload::attached_version(attached);
  if (ringload::served_version(socket, "model") != current) {
    attached = ringload::attach_next(socket, "model", current, std::chrono::seconds(10));
  }
  std::cout << "version " << ringload::attached_version(attached).number << " attached\n";
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: keep_model CHECKPOINT SOCKET\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader{ringload::shared_host()};
    asio::co_spawn(context, keep(loader, argv[1], argv[2]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
