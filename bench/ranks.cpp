// SPDX-License-Identifier: Apache-2.0

// Ranks load one file. Each rank is a thread with its own loader. A load ends when each rank has
// its block of every tensor, along dimension 0. With `whole` and `model`, each rank has all
// tensors.
//
//   whole     each rank loads the whole file
//   model     each rank reads an equal part, and the ranks send all parts to each other
//             (group_reading::divided, model_async())
//   divided   each rank reads an equal part, and the ranks send each other what they need
//             (group_reading::divided, shard_async() for each tensor)
//   own       each rank reads its blocks, tensor by tensor (group_reading::own)
//   shards    each rank reads its blocks with one load, by selection::shard, without a group

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <ringload/ringload.hpp>
#include <string>
#include <thread>
#include <vector>

#include "arguments.hpp"

namespace {

using namespace ringload;
using clock = std::chrono::steady_clock;
constexpr auto use_future = ringload::as_exception(boost::asio::use_future);

// Reads the file into the page cache.
void make_warm(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> room(std::size_t{1} << 20);
  while (in.read(room.data(), static_cast<std::streamsize>(room.size()))) {
  }
}

// Drops the file from the page cache.
void make_cold(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::system_category(), file);
  ::fsync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

std::uint64_t bytes_read(const load_stats& of) { return of.bytes_direct + of.bytes_buffered; }

// Runs one rank. Returns the number of bytes that the rank has read.
std::uint64_t load_blocks(const std::string& way, const std::string& file,
                          const std::shared_ptr<group>& all) {
  loader with;
  if (way == "whole") return bytes_read(with.load_async(file, use_future).get().stats());
  if (way == "shards") {
    const checkpoint from = with.open_async(file, use_future).get();
    selection wanted;
    for (const tensor_info& t : from) {
      if (!t.shape.empty()) wanted.shard(t.name, 0, all->rank(), all->size());
    }
    return bytes_read(with.load_async(from, wanted, use_future).get().stats());
  }
  group_options how;
  how.reading = way == "own" ? group_reading::own : group_reading::divided;
  group_load load = load_async(with, all, file, how, use_future).get();
  if (way == "model") {
    const model loaded = load.model_async(use_future).get();
    return bytes_read(load.stats());
  }
  for (const tensor_info& t : load.catalog().tensors) {
    (void)(t.shape.empty() ? load.tensor_async(t.name, use_future).get()
                           : load.shard_async(t.name, 0, use_future).get());
  }
  return bytes_read(load.stats());
}

struct run {
  double seconds = 0;
  std::uint64_t bytes = 0;
};

run run_ranks(const std::string& way, const std::string& file, std::uint32_t ranks) {
  std::vector<std::unique_ptr<group>> groups = make_thread_ranks(ranks);
  std::vector<std::uint64_t> read(ranks);
  std::vector<std::exception_ptr> failed(ranks);
  const clock::time_point begin = clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        try {
          read[r] = load_blocks(way, file, std::shared_ptr<group>(std::move(groups[r])));
        } catch (...) {
          failed[r] = std::current_exception();
        }
      });
    }
  }
  const std::chrono::duration<double> seconds = clock::now() - begin;
  run out = {seconds.count(), 0};
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (failed[r]) std::rethrow_exception(failed[r]);
    out.bytes += read[r];
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  ringload::bench::arguments app("Ranks that load one file, in five ways", "bench_ranks");
  std::string file;
  int repeat = 3;
  bool warm = false;
  std::vector<std::uint32_t> counts = {1, 2, 4};
  app.add_option("FILE", file, "A checkpoint").required();
  app.add_option("--repeat", repeat, "Runs of each, in turns").between(1, 1000);
  app.add_option("--ranks", counts, "How many; repeatable").between(1, 127);
  app.add_flag("--warm", warm, "With the file in the page cache");
  if (const auto code = app.parse(argc, argv)) return *code;

  try {
    const double size = static_cast<double>(read_catalog(file).size_bytes());
    if (warm) make_warm(file);
    fmt::print("| ranks | way | s, median | least .. most | GB/s of the file | read / file |\n");
    fmt::print("|---|---|---|---|---|---|\n");
    for (const std::uint32_t ranks : counts) {
      for (const std::string way : {"whole", "model", "divided", "own", "shards"}) {
        std::vector<double> seconds;
        std::uint64_t bytes = 0;
        for (int i = 0; i < repeat; ++i) {
          if (!warm) make_cold(file);
          const run one = run_ranks(way, file, ranks);
          seconds.push_back(one.seconds);
          bytes = one.bytes;
        }
        std::sort(seconds.begin(), seconds.end());
        const double median = seconds[seconds.size() / 2];
        fmt::print("| {} | {} | {:.3f} | {:.3f} .. {:.3f} | {:.2f} | {:.3f} |\n", ranks, way,
                   median, seconds.front(), seconds.back(), size / median / 1e9,
                   static_cast<double>(bytes) / size);
        std::fflush(stdout);
      }
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_ranks: {}\n", e.what());
    return 1;
  }
  return 0;
}
