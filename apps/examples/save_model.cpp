// SPDX-License-Identifier: Apache-2.0

// Saves the tensors of a loaded model as another checkpoint, in shards with an index. An old
// checkpoint at the path is replaced only when the new checkpoint is complete and on the drive.
//
//   save_model CHECKPOINT FOLDER

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

asio::awaitable<void> save(ringload::loader& loader, std::string source, std::string folder) {
  ringload::model model = co_await loader.load_async(source);

  ringload::save_options options;
  options.shard_count = 2;
  options.metadata = {{"format", "pt"}};
  ringload::save_result done =
      co_await loader.save_async(folder, ringload::refs_of(model), options);

  std::cout << done.files.size() << " files, " << done.bytes << " bytes\n";
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: save_model CHECKPOINT FOLDER\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader;
    asio::co_spawn(context, save(loader, argv[1], argv[2]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
