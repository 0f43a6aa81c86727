// SPDX-License-Identifier: Apache-2.0

// One rank of a group whose ranks all need a whole checkpoint. bench/machines.py runs this program
// on simulated machines.
//
//   bench_machine_ranks ADDRESS SOURCE --rank R --ranks N    joins a group: tcp://HOST:PORT, or mpi
//   bench_machine_ranks alone SOURCE                         loads without a group
//
// Prints when the load began and ended, in seconds of the monotonic clock, and how many bytes of
// tensors the rank has.

#include <fmt/core.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <ringload/group_load.hpp>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"

#ifdef BENCH_WITH_MPI
#include <ringload/mpi.hpp>
#endif

namespace {

using namespace ringload;
constexpr auto use_future = ringload::as_exception(boost::asio::use_future);

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct machine_options {
  std::string address;
  std::string source;
  unsigned rank = 0;
  unsigned ranks = 1;
  bool each = false;
};

void print_result(double begin, std::uint64_t bytes) {
  fmt::print("{:.6f} {:.6f} {}\n", begin, seconds_now(), bytes);
  std::fflush(stdout);
}

std::uint64_t size_of(const auto& tensors) {
  std::uint64_t bytes = 0;
  for (const tensor& loaded : tensors) bytes += loaded.size_bytes();
  return bytes;
}

void load_alone(loader& host_loader, const std::string& source) {
  const double begin = seconds_now();
  const model loaded = host_loader.load_async(source, use_future).get();
  print_result(begin, size_of(loaded));
}

void load_with(loader& host_loader, const std::shared_ptr<group>& ranks,
               const machine_options& options) {
  ranks->barrier();
  const double begin = seconds_now();
  group_load load = load_async(host_loader, ranks, options.source, {}, use_future).get();
  if (options.each) {
    std::vector<tensor> tensors;
    for (const tensor_info& info : load.catalog().tensors) {
      tensors.push_back(load.tensor_async(info.name, use_future).get());
    }
    print_result(begin, size_of(tensors));
  } else {
    const model loaded = load.model_async(use_future).get();
    print_result(begin, size_of(loaded));
  }
  ranks->barrier();
}

void run(const machine_options& options) {
  loader host_loader{host(), {}, {remote()}};
  if (options.address == "alone") {
    load_alone(host_loader, options.source);
    return;
  }
  if (options.address != "mpi") {
    load_with(host_loader, join_group(options.address, options.rank, options.ranks), options);
    return;
  }
#ifdef BENCH_WITH_MPI
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  load_with(host_loader, mpi_group(MPI_COMM_WORLD), options);
  MPI_Finalize();
#else
  throw std::runtime_error("this benchmark was built without MPI");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  machine_options options;
  ringload::bench::arguments app("One rank of a group that loads a checkpoint",
                                 "bench_machine_ranks");
  app.add_option("ADDRESS", options.address, "tcp://HOST:PORT, mpi or alone").required();
  app.add_option("SOURCE", options.source, "A checkpoint").required();
  app.add_option("--rank", options.rank, "Index of this rank");
  app.add_option("--ranks", options.ranks, "Number of ranks").between(1, 127);
  app.add_flag("--each", options.each, "One call for each tensor, not one call for all");
  if (const auto code = app.parse(argc, argv)) return *code;
  try {
    run(options);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "bench_machine_ranks: {}\n", failure.what());
    return 1;
  }
  return 0;
}
