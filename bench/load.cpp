// SPDX-License-Identifier: Apache-2.0

// Compares whole loads into host memory with plain reads of the same file, in turn.
//
//   cold: plain direct reads with io_uring. Their block size and queue depth are the fastest of
//         several, with three runs each.
//   warm: two threads that call pread
//
// Plain reads are also measured into fresh memory, whose page faults take time too.
//
// The block size and queue depth are chosen first and then measured again, because the best of many
// medians is partly luck.
//
// The other plain reads use memory on huge pages that was populated before the clock started. The
// time of a load is the whole time of the call: opening, parsing, allocating memory, reading. The
// plain reads are those of uring-bench, which verifies the page cache's state. Processor time is of
// the whole process, with the kernel's workers.

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "machine.hpp"
#include "repeat_runs.hpp"
#include "resource_usage.hpp"
#include "run.hpp"
#include "touch_memory.hpp"

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

// Reads the whole file once, into memory of its size.
bench::cell pass_over(const bench::target& of, bench::destination into) {
  bench::cell what;
  what.into = into;
  what.bytes_max = of.bytes();
  what.seconds = 3600;
  return what;
}

struct contender {
  std::string name;
  std::vector<double> seconds = {};
  std::vector<double> cpu_s_per_gib = {};

  void add(const bench::measurement& m) {
    seconds.push_back(m.seconds);
    cpu_s_per_gib.push_back(m.cpu_s_per_gib());
  }
  void add(double load_seconds, double cpu_seconds, double bytes) {
    seconds.push_back(load_seconds);
    cpu_s_per_gib.push_back(cpu_seconds / bytes * (1 << 30));
  }
};

void print(const contender& one, double bytes) {
  const auto [least, most] = std::minmax_element(one.seconds.begin(), one.seconds.end());
  fmt::print("| {:<34} | {:6.3f} | {:5.2f} | {:5.2f} .. {:5.2f} | {:9.4f} |\n", one.name,
             median(one.seconds), bytes / median(one.seconds) * 1e-9, bytes / *most * 1e-9,
             bytes / *least * 1e-9, median(one.cpu_s_per_gib));
}

void print_head() {
  fmt::print("| {:<34} | {:>6} | {:>5} | {:<14} | {:>9} |\n|---|---|---|---|---|\n",
             "median of the runs", "s", "GB/s", "least .. most", "CPU s/GiB");
}

// Reads the same bytes in four ways, in turn.
struct compared {
  contender plain;
  contender fresh = {"the same, into fresh memory"};
  contender ours = {"ringload, whole load"};
  contender kept = {"ringload, into kept memory"};

  void print_all(double bytes) const {
    print_head();
    for (const contender* one : {&plain, &fresh, &ours, &kept}) print(*one, bytes);
    fmt::print(
        "\nOf the plain reads ringload reaches {:.3f}, and {:.3f} into memory kept from the load\n"
        "before; of the same into fresh memory {:.3f}\n",
        median(plain.seconds) / median(ours.seconds), median(plain.seconds) / median(kept.seconds),
        median(fresh.seconds) / median(ours.seconds));
  }
};

model load(loader& by, const std::string& path) {
  auto waiting = by.load_async(path, ringload::as_exception(boost::asio::use_future));
  return waiting.get();
}

// Loads models one after another with one loader, as a server that swaps models does. Each load
// reuses the memory of the previous load.
class swapping {
 public:
  swapping(const std::string& path, loader_options within)
      : path_(path), into_host_(host(), keeping(path, within)) {
    (void)load(into_host_, path_);
  }

  double seconds() {
    const load_stats stats = load(into_host_, path_).stats();
    if (!stats.memory_kept) throw std::runtime_error("the load did not find the memory kept");
    return stats.seconds;
  }

 private:
  static loader_options keeping(const std::string& path, loader_options within) {
    within.cached_bytes = 2 * std::filesystem::file_size(path);
    return within;
  }

  const std::string path_;
  loader into_host_;
};

// Makes one load into new memory and one into kept memory. Returns the statistics of the first
// load.
load_stats add_loads(compared& to, const bench::target& file, bench::cache_state state,
                     const loader_options& within, bool touched, swapping& swaps) {
  const auto bytes = static_cast<double>(file.bytes());
  if (touched) bench::touch_free_memory(file.bytes());
  file.establish(state);
  loader into_host(host(), within);
  const bench::cpu_account of_new;
  const model loaded = load(into_host, file.path());
  to.ours.add(loaded.stats().seconds, of_new.spent().own, bytes);
  file.establish(state);
  const bench::cpu_account of_kept;
  const double kept_seconds = swaps.seconds();
  to.kept.add(kept_seconds, of_kept.spent().own, bytes);
  return loaded.stats();
}

long peak_resident_kib() {
  struct ::rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void cold(const std::string& path, bench::read_buffer& memory, int repeat,
          const loader_options& within, bool touched) {
  const bench::target file(path, bench::route::direct);
  const auto bytes = static_cast<double>(file.bytes());
  std::vector<contender> shaped;
  for (const direct_shape s : shapes) {
    shaped.push_back({fmt::format("{} x {} KiB", s.depth, s.block_bytes / 1024)});
  }
  const auto read_by = [&](const direct_shape& s, bench::destination into) {
    bench::cell what = pass_over(file, into);
    what.block_bytes = s.block_bytes;
    what.depth = s.depth;
    return bench::run(file, what, memory);
  };
  for (int i = 0; i < runs_to_choose; ++i) {
    for (std::size_t s = 0; s < shaped.size(); ++s) {
      shaped[s].add(read_by(shapes[s], bench::destination::populated));
    }
  }
  fmt::print("\nPlain io_uring, direct, {} runs of each shape in turns:\n\n", runs_to_choose);
  print_head();
  std::size_t best = 0;
  for (std::size_t s = 0; s < shaped.size(); ++s) {
    print(shaped[s], bytes);
    if (median(shaped[s].seconds) < median(shaped[best].seconds)) best = s;
  }

  compared all = {{fmt::format("plain io_uring, {}", shaped[best].name)}};
  swapping swaps(path, within);
  for (int i = 0; i < repeat; ++i) {
    all.plain.add(read_by(shapes[best], bench::destination::populated));
    if (touched) bench::touch_free_memory(file.bytes());
    all.fresh.add(read_by(shapes[best], bench::destination::fresh));
    const load_stats stats = add_loads(all, file, bench::cache_state::cold, within, touched, swaps);
    if (stats.bytes_buffered > 0) throw std::runtime_error("the load did not read directly");
  }
  fmt::print("\nCold, direct, {} runs of each in turns:\n\n", repeat);
  all.print_all(bytes);
}

void warm(const std::string& path, bench::read_buffer& memory, int repeat,
          const loader_options& within, bool touched) {
  const bench::target file(path, bench::route::buffered);
  const auto bytes = static_cast<double>(file.bytes());
  bench::cell what = pass_over(file, bench::destination::populated);
  what.with = bench::method::threads;
  what.by = bench::route::buffered;
  what.state = bench::cache_state::warm;
  what.depth = 2;
  bench::cell taking = what;
  taking.into = bench::destination::fresh;
  compared all = {{"pread, 2 threads"}};
  swapping swaps(path, within);
  for (int i = 0; i < repeat; ++i) {
    all.plain.add(bench::run(file, what, memory));
    if (touched) bench::touch_free_memory(file.bytes());
    all.fresh.add(bench::run(file, taking, memory));
    const load_stats stats = add_loads(all, file, bench::cache_state::warm, within, touched, swaps);
    if (stats.bytes_direct > stats.bytes_buffered / 100) {
      throw std::runtime_error("the load did not read from the page cache");
    }
  }
  fmt::print("\nWarm, buffered, {} runs of each in turns:\n\n", repeat);
  all.print_all(bytes);
}

}  // namespace

int main(int argc, char** argv) {
  ringload::bench::arguments app("A whole load against what the drive and the page cache give",
                                 "bench_load");
  std::string path;
  int repeat = 7;
  loader_options within;
  bool untouched = false;
  std::string only;
  app.add_option("FILE", path, "A .safetensors file, best of 4 GiB, on the drive to be measured")
      .required();
  app.add_option("--repeat", repeat, "Runs of each, in turns").between(1, 1000);
  app.add_option("--slots", within.slots, "As loader_options::slots");
  app.add_option("--bytes-in-flight", within.bytes_in_flight, "As loader_options::bytes_in_flight");
  app.add_option("--copy-threads", within.copy_threads, "As loader_options::copy_threads");
  app.add_flag("--untouched", untouched,
               "Do not touch free memory before a load; on a virtual machine it may then be slow");
  app.add_option("--only", only, "One of the two parts").among({"cold", "warm"});
  if (const auto code = app.parse(argc, argv)) return *code;

  try {
    const bool touched = !untouched;
    // Must be first, before this program allocates a region, so that the peak is that of the load.
    const bench::target file(path, bench::route::direct);
    if (touched) bench::touch_free_memory(file.bytes());
    file.establish(bench::cache_state::cold);
    const load_stats first = [&] {
      loader into_host(host(), within);
      return load(into_host, path).stats();
    }();
    const long resident_kib = peak_resident_kib();

    fmt::print("{}\n\n", bench::describe_machine(path));
    fmt::print("{} bytes; free memory {}\n", file.bytes(),
               touched ? "touched before each load" : "as it is");
    fmt::print("{}; slots {}, pinned {} bytes; resident at most {} bytes more than the tensors\n",
               first.engine_reason, chosen_options(within, device_kind::host).slots,
               first.pinned_bytes_peak, resident_kib * 1024L - static_cast<long>(first.bytes));
    bench::read_buffer memory;
    if (only != "warm") cold(path, memory, repeat, within, touched);
    if (only != "cold") warm(path, memory, repeat, within, touched);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_load: {}\n", e.what());
    return 1;
  }
  return 0;
}
