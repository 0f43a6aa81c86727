// SPDX-License-Identifier: Apache-2.0

// Limits the resources of a loader, keeps freed memory for the next load, and prints how the files
// were read.
//
//   tune_loader CHECKPOINT

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <string>

namespace asio = boost::asio;

ringload::loader_options small_options() {
  ringload::loader_options limits;
  limits.slots = 8;                                 // At most 8 reads are in flight.
  limits.slot_bytes = std::uint64_t{2} << 20;       // At most 16 MiB of memory are pinned.
  limits.cached_bytes = std::uint64_t{1} << 30;     // Freed memory is kept for the next load.
  limits.arena_bytes_max = std::uint64_t{8} << 30;  // One load uses at most 8 GiB for tensors.
  return limits;
}

asio::awaitable<void> load(ringload::loader& loader, std::string source) {
  ringload::model model = co_await loader.load_async(source);
  const ringload::load_stats stats = model.stats();
  std::cout << model.size() << " tensors in " << stats.seconds << " s\n"
            << stats.bytes_direct << " bytes past the page cache, " << stats.bytes_buffered
            << " through it\n"
            << "reads by " << stats.engine_reason << '\n'
            << stats.pinned_bytes_peak << " bytes pinned at most\n";
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tune_loader CHECKPOINT\n";
    return 2;
  }
  try {
    asio::io_context context;
    ringload::loader loader{ringload::host(), small_options()};
    asio::co_spawn(context, load(loader, argv[1]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
    context.run();
  } catch (const std::exception& failure) {
    std::cerr << failure.what() << '\n';
    return 1;
  }
}
