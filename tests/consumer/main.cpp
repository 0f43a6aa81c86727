// SPDX-License-Identifier: Apache-2.0
#include <boost/asio.hpp>
#include <iostream>
#include <ringload/loader.hpp>

namespace asio = boost::asio;

asio::awaitable<void> serve(ringload::loader& loader, std::string source) {
  ringload::model model = co_await loader.load_async(source);
  for (const ringload::tensor& tensor : model) {
    std::cout << tensor.name() << ": " << tensor.size_bytes() << " bytes at " << tensor.data()
              << '\n';
  }
}

int main(int argc, char** argv) {
  asio::io_context server;
  ringload::loader loader(server);
  for (int i = 1; i < argc; ++i) {
    asio::co_spawn(server, serve(loader, argv[i]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
  }
  server.run();
}
