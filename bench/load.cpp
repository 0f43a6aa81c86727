// SPDX-License-Identifier: Apache-2.0

// A whole load into host memory against what the machine gives, in the same run, in turns.
//
//   cold: plain io_uring direct reads of the shape that did best in three runs of each
//   warm: two threads of pread; and the same into fresh memory, whose pages take their time too
//
// The shape is chosen before, and then measured anew: the best of many medians of the same runs
// would be the luckiest as well.
//
// The ceilings read into memory on huge pages that was populated before the clock started. A
// load's time is everything between the call and the model: opening, parsing, taking the memory,
// reading. The plain reads are those of uring-bench, which verifies the page cache's state.

#include <fmt/core.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/mapping.hpp"
#include "machine.hpp"
#include "repeated.hpp"
#include "run.hpp"

namespace {

using namespace ringload;
using bench::median;

constexpr std::uint32_t mib = 1 << 20;

struct direct_shape {
  std::uint32_t block_bytes;
  unsigned depth;
};
constexpr direct_shape shapes[] = {{mib, 4},     {mib, 8},     {mib, 16},    {2 * mib, 2},
                                   {2 * mib, 4}, {2 * mib, 8}, {4 * mib, 1}, {4 * mib, 4}};

constexpr int runs_to_choose = 3;

// One pass over the whole file, into memory of its size.
bench::cell pass_over(const bench::target& of, bench::destination into) {
  bench::cell what;
  what.into = into;
  what.bytes_max = of.bytes();
  what.seconds = 3600;
  return what;
}

struct contender {
  std::string name;
  std::vector<double> seconds;
};

void print(const contender& one, double bytes) {
  const auto [least, most] = std::minmax_element(one.seconds.begin(), one.seconds.end());
  fmt::print("| {:<34} | {:6.3f} | {:5.2f} | {:5.2f} .. {:5.2f} |\n", one.name, median(one.seconds),
             bytes / median(one.seconds) * 1e-9, bytes / *most * 1e-9, bytes / *least * 1e-9);
}

void print_head() {
  fmt::print("| {:<34} | {:>6} | {:>5} | {:<14} |\n|---|---|---|---|\n", "median of the runs", "s",
             "GB/s", "least .. most");
}

void compare(const contender& plain, const contender& ours, double bytes) {
  print_head();
  print(plain, bytes);
  print(ours, bytes);
  fmt::print("\nringload reaches {:.3f} of it\n", median(plain.seconds) / median(ours.seconds));
}

// A virtual machine may have given its free memory back to its host, and then the first touch of a
// page takes the host a fault: 1 GB/s where it was measured, as slow as a slow drive. Here the
// memory that a load is about to take is touched shortly before, so that it costs what it costs on
// metal.
void touch_free_memory(std::uint64_t bytes) {
  auto memory = mapping::make(bytes, page_kind::transparent);
  if (!memory || populate(memory->span())) throw std::runtime_error("no memory for the load");
}

load_stats load_once(const std::string& path, const limits& within, bool touched) {
  if (touched) touch_free_memory(std::filesystem::file_size(path));
  loader into_host(host(), within);
  auto waiting = into_host.load_async(path, boost::asio::use_future);
  return waiting.get().stats();
}

// Loads one after the other by one loader, as a server swaps models: each into the memory of the
// one before.
class swapping {
 public:
  swapping(const std::string& path, limits within)
      : path_(path), into_host_(host(), keeping(path, within)) {
    (void)into_host_.load_async(path_, boost::asio::use_future).get();
  }

  double seconds() {
    const load_stats stats = into_host_.load_async(path_, boost::asio::use_future).get().stats();
    if (!stats.memory_kept) throw std::runtime_error("the load did not find the memory kept");
    return stats.seconds;
  }

 private:
  static limits keeping(const std::string& path, limits within) {
    within.kept_bytes = 2 * std::filesystem::file_size(path);
    return within;
  }

  const std::string path_;
  loader into_host_;
};

void compare_kept(const contender& kept, const contender& plain) {
  fmt::print(
      "Into memory that was kept from the load before, {:.3f} s: {:.3f} of the plain reads\n",
      median(kept.seconds), median(plain.seconds) / median(kept.seconds));
}

long peak_resident_kib() {
  struct ::rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void cold(const std::string& path, bench::room& memory, int repeat, const limits& within,
          bool touched) {
  const bench::target file(path, bench::route::direct);
  const auto bytes = static_cast<double>(file.bytes());
  std::vector<contender> shaped;
  for (const direct_shape s : shapes) {
    shaped.push_back({fmt::format("{} x {} KiB", s.depth, s.block_bytes / 1024), {}});
  }
  const auto read_by = [&](const direct_shape& s) {
    bench::cell what = pass_over(file, bench::destination::populated);
    what.block_bytes = s.block_bytes;
    what.depth = s.depth;
    return bench::run(file, what, memory).seconds;
  };
  for (int i = 0; i < runs_to_choose; ++i) {
    for (std::size_t s = 0; s < shaped.size(); ++s) shaped[s].seconds.push_back(read_by(shapes[s]));
  }
  fmt::print("\nPlain io_uring, direct, {} runs of each shape in turns:\n\n", runs_to_choose);
  print_head();
  std::size_t best = 0;
  for (std::size_t s = 0; s < shaped.size(); ++s) {
    print(shaped[s], bytes);
    if (median(shaped[s].seconds) < median(shaped[best].seconds)) best = s;
  }

  contender plain = {fmt::format("plain io_uring, {}", shaped[best].name), {}};
  contender ours = {"ringload, whole load", {}};
  contender kept = {"into kept memory", {}};
  swapping swaps(path, within);
  for (int i = 0; i < repeat; ++i) {
    plain.seconds.push_back(read_by(shapes[best]));
    file.establish(bench::cache_state::cold);
    const load_stats stats = load_once(path, within, touched);
    if (stats.bytes_buffered > 0) throw std::runtime_error("the load did not read directly");
    ours.seconds.push_back(stats.seconds);
    file.establish(bench::cache_state::cold);
    kept.seconds.push_back(swaps.seconds());
  }
  fmt::print("\nCold, direct, {} runs of each in turns:\n\n", repeat);
  compare(plain, ours, bytes);
  compare_kept(kept, plain);
}

void warm(const std::string& path, bench::room& memory, int repeat, const limits& within,
          bool touched) {
  const bench::target file(path, bench::route::buffered);
  const auto bytes = static_cast<double>(file.bytes());
  bench::cell what = pass_over(file, bench::destination::populated);
  what.with = bench::method::threads;
  what.by = bench::route::buffered;
  what.state = bench::cache_state::warm;
  what.depth = 2;
  bench::cell taking = what;
  taking.into = bench::destination::fresh;
  contender plain = {"pread, 2 threads", {}};
  contender fresh = {"the same, into fresh memory", {}};
  contender ours = {"ringload, whole load", {}};
  contender kept = {"into kept memory", {}};
  swapping swaps(path, within);
  for (int i = 0; i < repeat; ++i) {
    plain.seconds.push_back(bench::run(file, what, memory).seconds);
    if (touched) touch_free_memory(file.bytes());
    fresh.seconds.push_back(bench::run(file, taking, memory).seconds);
    file.establish(bench::cache_state::warm);
    const load_stats stats = load_once(path, within, touched);
    if (stats.bytes_direct > stats.bytes_buffered / 100) {
      throw std::runtime_error("the load did not read from the page cache");
    }
    ours.seconds.push_back(stats.seconds);
    file.establish(bench::cache_state::warm);
    kept.seconds.push_back(swaps.seconds());
  }
  fmt::print("\nWarm, buffered, {} runs of each in turns:\n\n", repeat);
  compare(plain, ours, bytes);
  compare_kept(kept, plain);
  fmt::print("Into fresh memory the plain reads took {:.3f} s, the load {:.3f} of that\n",
             median(fresh.seconds), median(ours.seconds) / median(fresh.seconds));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A whole load against what the drive and the page cache give", "bench_load");
  std::string path;
  int repeat = 7;
  limits within;
  bool untouched = false;
  std::string only;
  app.add_option("FILE", path, "A .safetensors file, best of 4 GiB, on the drive to be measured")
      ->required();
  app.add_option("--repeat", repeat, "Runs of each, in turns")->check(CLI::Range(1, 1000));
  app.add_option("--slots", within.slots, "As limits::slots");
  app.add_option("--bytes-in-flight", within.bytes_in_flight, "As limits::bytes_in_flight");
  app.add_option("--copy-threads", within.copy_threads, "As limits::copy_threads");
  app.add_flag("--untouched", untouched,
               "Do not touch free memory before a load; on a virtual machine it may then be slow");
  app.add_option("--only", only, "One of the two parts")->check(CLI::IsMember({"cold", "warm"}));
  CLI11_PARSE(app, argc, argv);

  try {
    const bool touched = !untouched;
    // Before there is a region of our own, so that the peak is the load's.
    const bench::target file(path, bench::route::direct);
    file.establish(bench::cache_state::cold);
    const load_stats first = load_once(path, within, touched);
    const long resident_kib = peak_resident_kib();

    fmt::print("{}\n\n", bench::describe_machine(path));
    fmt::print("{} bytes; free memory {}\n", file.bytes(),
               touched ? "touched before each load" : "as it is");
    fmt::print("{}; slots {}, pinned {} bytes; resident at most {} bytes more than the tensors\n",
               first.engine_reason, within.slots, first.pinned_bytes_peak,
               resident_kib * 1024L - static_cast<long>(first.bytes));
    bench::room memory;
    if (only != "warm") cold(path, memory, repeat, within, touched);
    if (only != "cold") warm(path, memory, repeat, within, touched);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_load: {}\n", e.what());
    return 1;
  }
  return 0;
}
