// SPDX-License-Identifier: Apache-2.0

// Loads parts of a checkpoint: a range of one tensor, and the shards of one rank. Only the selected
// bytes are read.
//
//   slice_and_shard CHECKPOINT

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

// Loads the first half of the rows of one tensor.
asio::awaitable<void> load_slice(ringload::loader& loader, ringload::checkpoint checkpoint) {
  const ringload::tensor_info& first = *checkpoint.begin();
  const std::uint64_t rows = first.shape[0] / 2;
  ringload::selection half = ringload::select().slice(first.name, 0, 0, rows);
  ringload::model top = co_await loader.load_async(checkpoint, half);
  std::cout << "half: " << top.at(first.name).size_bytes() << " of " << first.bytes << " bytes\n";
}

// Divides every tensor along dimension 0 between 4 ranks, and loads the shards of rank 1.
asio::awaitable<void> load_shard(ringload::loader& loader, ringload::checkpoint checkpoint) {
  ringload::selection part = ringload::select().shard("*", 0, 1, 4);
  ringload::model mine = co_await loader.load_async(checkpoint, part);
  std::cout << "rank 1 of 4: " << mine.size() << " tensors, " << mine.stats().bytes << " bytes\n";
}

asio::awaitable<void> load_parts(ringload::loader& loader, std::string source) {
  ringload::checkpoint checkpoint = co_await loader.open_async(source);
  co_await load_slice(loader, checkpoint);
  co_await load_shard(loader, checkpoint);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: slice_and_shard CHECKPOINT\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader;
    asio::co_spawn(context, load_parts(loader, argv[1]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
