// SPDX-License-Identifier: Apache-2.0

// Loads a checkpoint from an HTTP server, from S3 or from the Hugging Face hub.
//
//   load_remote https://HOST/model.safetensors|hf://OWNER/MODEL|s3://BUCKET/PREFIX

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

ringload::remote_options network() {
  ringload::remote_options options;
  options.connections = 8;
  options.hub.cache = ringload::hub_cache::read;
  if (const char* token = std::getenv("HF_TOKEN")) options.hub.token = token;
  return options;
}

asio::awaitable<void> load(ringload::loader& loader, std::string source) {
  ringload::model model = co_await loader.load_async(source);
  const ringload::load_stats stats = model.stats();
  std::cout << model.size() << " tensors, " << stats.bytes_remote << " bytes received in "
            << stats.requests << " requests\n";
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: load_remote SOURCE\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader{ringload::host(), {}, {ringload::remote(network())}};
    asio::co_spawn(context, load(loader, argv[1]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
