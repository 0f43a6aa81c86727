// SPDX-License-Identifier: Apache-2.0

// Times the calls of a group. Each rank runs this program with the same arguments, except for
// --rank:
//
//   for r in 0 1 2 3; do bench_group_calls tcp://127.0.0.1:29500 --rank $r --ranks 4 & done; wait
//   mpirun -n 4 bench_group_calls mpi
//   bench_group_calls threads --ranks 4
//
// The calls take turns. A call ends when the last rank has its bytes. Rank 0 prints a table. With
// MPI, the table also has MPI's own collectives, which write to the memory of the caller.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <ringload/group.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "arguments.hpp"

#ifdef BENCH_WITH_MPI
#include <ringload/mpi.hpp>
#endif

namespace {

using namespace ringload;
using clock_type = std::chrono::steady_clock;

struct bench_options {
  std::string address;
  unsigned rank = 0;
  unsigned ranks = 1;
  std::uint64_t mib = 256;
  unsigned repeat = 5;
};

struct timed_call {
  std::string name;
  std::function<void()> run;
};

// Buffers of one rank. `whole` is the same size on each rank. `part` is the share of one rank.
struct buffers {
  explicit buffers(std::uint64_t bytes, unsigned ranks)
      : whole(bytes), part(bytes / ranks), part_bytes(bytes / ranks) {}

  std::vector<std::span<const std::byte>> parts(unsigned ranks) const {
    std::vector<std::span<const std::byte>> out;
    for (unsigned r = 0; r < ranks; ++r)
      out.emplace_back(whole.data() + r * part_bytes, part_bytes);
    return out;
  }

  std::vector<std::byte> whole;
  std::vector<std::byte> part;
  std::size_t part_bytes;
};

// Calls of class `group`.
std::vector<timed_call> group_calls(group& ranks, buffers& memory) {
  std::vector<timed_call> calls;
  calls.push_back({"broadcast", [&] { ranks.broadcast(memory.whole, 0); }});
  calls.push_back({"broadcast of 64 KiB", [&] {
                     const std::size_t bytes = std::min<std::size_t>(64 << 10, memory.whole.size());
                     ranks.broadcast(std::span(memory.whole).first(bytes), 0);
                   }});
  calls.push_back({"scatter", [&] {
                     const auto parts = memory.parts(ranks.size());
                     ranks.scatter(ranks.rank() == 0
                                       ? std::span(parts)
                                       : std::span<const std::span<const std::byte>>(),
                                   memory.part, 0);
                   }});
  calls.push_back({"all_gather", [&] {
                     std::vector<gathered_part> parts;
                     for (unsigned r = 0; r < ranks.size(); ++r) {
                       parts.push_back(
                           {{memory.whole.data() + r * memory.part_bytes, memory.part_bytes}, r});
                     }
                     ranks.all_gather(parts);
                   }});
  calls.push_back({"barrier", [&] { ranks.barrier(); }});
  return calls;
}

#ifdef BENCH_WITH_MPI

void wait_for(MPI_Request& request) {
  int done = 0;
  while (done == 0) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) std::this_thread::yield();
  }
}

std::vector<timed_call> mpi_calls(group& ranks, buffers& memory) {
  std::vector<timed_call> calls;
  calls.push_back({"MPI_Ibcast", [&] {
                     MPI_Request request = MPI_REQUEST_NULL;
                     MPI_Ibcast(memory.whole.data(), static_cast<int>(memory.whole.size()),
                                MPI_BYTE, 0, MPI_COMM_WORLD, &request);
                     wait_for(request);
                   }});
  calls.push_back({"MPI_Ibcast of 64 KiB", [&] {
                     MPI_Request request = MPI_REQUEST_NULL;
                     MPI_Ibcast(memory.whole.data(), 64 << 10, MPI_BYTE, 0, MPI_COMM_WORLD,
                                &request);
                     wait_for(request);
                   }});
  calls.push_back({"MPI_Iscatterv", [&] {
                     std::vector<int> counts(ranks.size(), static_cast<int>(memory.part_bytes));
                     std::vector<int> offsets;
                     for (unsigned r = 0; r < ranks.size(); ++r)
                       offsets.push_back(static_cast<int>(r * memory.part_bytes));
                     MPI_Request request = MPI_REQUEST_NULL;
                     MPI_Iscatterv(memory.whole.data(), counts.data(), offsets.data(), MPI_BYTE,
                                   memory.part.data(), static_cast<int>(memory.part_bytes),
                                   MPI_BYTE, 0, MPI_COMM_WORLD, &request);
                     wait_for(request);
                   }});
  calls.push_back({"MPI_Ibarrier", [&] {
                     MPI_Request request = MPI_REQUEST_NULL;
                     MPI_Ibarrier(MPI_COMM_WORLD, &request);
                     wait_for(request);
                   }});
  return calls;
}

#endif

void print_row(const std::string& name, std::vector<double> seconds, std::uint64_t bytes) {
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  fmt::print("| {} | {:.6f} | {:.6f} .. {:.6f} | {} |\n", name, median, seconds.front(),
             seconds.back(),
             bytes > 0 ? fmt::format("{:.3f}", static_cast<double>(bytes) / median / 1e9) : "");
}

void run_rank(group& ranks, const bench_options& options, bool with_mpi) {
  buffers memory(options.mib << 20U, ranks.size());
  std::vector<timed_call> calls = group_calls(ranks, memory);
#ifdef BENCH_WITH_MPI
  if (with_mpi) {
    for (timed_call& call : mpi_calls(ranks, memory)) calls.push_back(std::move(call));
  }
#else
  (void)with_mpi;
#endif
  std::map<std::string, std::vector<double>> seconds;
  for (unsigned round = 0; round <= options.repeat; ++round) {
    for (const timed_call& call : calls) {
      ranks.barrier();
      const auto begin = clock_type::now();
      call.run();
      ranks.barrier();
      const std::chrono::duration<double> taken = clock_type::now() - begin;
      // The first round makes the memory present.
      if (round > 0) seconds[call.name].push_back(taken.count());
    }
  }
  if (ranks.rank() != 0) return;
  fmt::print("{} ranks, {} MiB\n\n", ranks.size(), options.mib);
  fmt::print("| call | s, median | least .. most | GB/s of the bytes |\n|---|---|---|---|\n");
  for (const timed_call& call : calls) {
    const bool is_large = call.name.find("arrier") == std::string::npos &&
                          call.name.find("64 KiB") == std::string::npos;
    print_row(call.name, seconds[call.name], is_large ? memory.whole.size() : 0);
  }
}

void run_threads(const bench_options& options) {
  std::vector<std::unique_ptr<group>> groups = make_thread_ranks(options.ranks);
  std::vector<std::exception_ptr> failures(options.ranks);
  std::vector<std::jthread> threads;
  for (unsigned r = 0; r < options.ranks; ++r) {
    threads.emplace_back([&, r, own = std::move(groups[r])]() mutable {
      try {
        run_rank(*own, options, false);
      } catch (...) {
        failures[r] = std::current_exception();
      }
      own.reset();
    });
  }
  threads.clear();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void run_mpi([[maybe_unused]] const bench_options& options) {
#ifdef BENCH_WITH_MPI
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  run_rank(*mpi_group(MPI_COMM_WORLD), options, true);
  MPI_Finalize();
#else
  throw std::runtime_error("this benchmark was built without MPI");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  bench_options options;
  ringload::bench::arguments app("Times the calls of a group", "bench_group_calls");
  app.add_option("ADDRESS", options.address, "mpi, threads, a socket's path or tcp://HOST:PORT")
      .required();
  app.add_option("--rank", options.rank, "Index of this rank");
  app.add_option("--ranks", options.ranks, "Number of ranks").between(1, 127);
  app.add_option("--mib", options.mib, "Size of a broadcast, and of all parts of a scatter")
      .between(1, 2047);
  app.add_option("--repeat", options.repeat, "Rounds").between(1, 1000);
  if (const auto code = app.parse(argc, argv)) return *code;
  try {
    if (options.address == "threads") {
      run_threads(options);
    } else if (options.address == "mpi") {
      run_mpi(options);
    } else {
      run_rank(*join_group(options.address, options.rank, options.ranks), options, false);
    }
  } catch (const std::exception& failure) {
    fmt::print(stderr, "bench_group_calls: {}\n", failure.what());
    return 1;
  }
  return 0;
}
