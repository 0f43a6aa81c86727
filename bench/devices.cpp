// SPDX-License-Identifier: Apache-2.0

// Loads to two arenas of the host, as to two devices, against one; and with --slow a load from one
// drive while another one, which is slower, is loaded from by the same loader. All in turns.
//
//   spread      each tensor to the arena with the fewest bytes
//   shards      of each matrix a half to either, along its first dimension
//   both        everything to both: read once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <functional>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "machine.hpp"
#include "repeated.hpp"
#include "target.hpp"

namespace {

using namespace ringload;
using bench::median;
using boost::asio::use_future;

struct settings {
  std::string path;
  std::string slow;
  int repeat = 5;
};

struct way {
  std::string what;
  std::uint32_t devices;
  selection where = {};
  std::vector<double> seconds = {};
  std::uint64_t read = 0;
};

selection halves(const std::string& path) {
  selection out;
  loader opening;
  const checkpoint file = opening.open_async(path, use_future).get();
  for (const tensor_info& t : file) {
    if (t.shape.size() > 1) out.shard(t.name, 0);
  }
  return out;
}

void run(way& one, const bench::target& file, bench::cache_state state, const std::string& path) {
  file.establish(state);
  loader with(std::vector<device>(one.devices, host()));
  const model loaded = with.load_async(path, one.where, load_options(), use_future).get();
  const load_stats& stats = loaded.stats();
  one.seconds.push_back(stats.seconds);
  one.read = stats.bytes_direct + stats.bytes_buffered;
}

void compare_arenas(const settings& how) {
  const bench::target file(how.path, bench::route::buffered);
  for (const auto state : {bench::cache_state::cold, bench::cache_state::warm}) {
    std::vector<way> ways = {{"one arena", 1},
                             {"two, spread", 2, select().spread("*")},
                             {"two, shards", 2, halves(how.path)},
                             {"two, both", 2, select().replicate("*")}};
    for (int turn = 0; turn < how.repeat; ++turn) {
      for (way& each : ways) run(each, file, state, how.path);
    }
    fmt::print("\n| {:<12} | {:>7} | {:>14} | {:>9} | {:>15} |\n|---|---|---|---|---|\n",
               state == bench::cache_state::cold ? "cold" : "warm", "s", "bytes read", "read GB/s",
               "of one arena's");
    const auto rate = [](const way& w) { return static_cast<double>(w.read) / median(w.seconds); };
    for (const way& each : ways) {
      fmt::print("| {:<12} | {:7.4f} | {:>14} | {:9.2f} | {:15.3f} |\n", each.what,
                 median(each.seconds), each.read, rate(each) * 1e-9,
                 rate(each) / rate(ways.front()));
    }
  }
}

void compare_drives(const settings& how) {
  const bench::target fast(how.path, bench::route::buffered);
  const bench::target slow(how.slow, bench::route::buffered);
  std::vector<double> alone;
  std::vector<double> beside;
  std::vector<double> slow_alone;
  const auto cold_load = [](loader& with, const std::string& path) {
    return with.load_async(path, use_future).get().stats().seconds;
  };
  for (int turn = 0; turn < how.repeat; ++turn) {
    {
      fast.establish(bench::cache_state::cold);
      loader with;
      alone.push_back(cold_load(with, how.path));
    }
    slow.establish(bench::cache_state::cold);
    fast.establish(bench::cache_state::cold);
    loader with;
    (void)with.open_async(how.path, use_future).get();  // It knows of both drives.
    loading other = with.start_async(how.slow, use_future).get();
    beside.push_back(cold_load(with, how.path));
    if (other.progress().bytes == other.progress().bytes_total) {
      throw std::runtime_error("the slow load was over before the fast one: give it more bytes");
    }
    slow_alone.push_back(other.finish_async(use_future).get().stats().seconds);
  }
  fmt::print("\n| cold, from the fast drive | s |\n|---|---|\n| alone | {:.4f} |\n", median(alone));
  fmt::print("| while the slow one is loaded from, in {:.1f} s | {:.4f} |\n", median(slow_alone),
             median(beside));
  fmt::print("\nIt takes {:.3f} of the time\n", median(beside) / median(alone));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Loads to several devices, and from several drives", "bench_devices");
  settings how;
  app.add_option("FILE", how.path, "A .safetensors file on the drive to be measured")->required();
  app.add_option("--slow", how.slow, "Only beside a load of this one, which is on another drive");
  app.add_option("--repeat", how.repeat, "Runs of each, in turns")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("{}\n", bench::describe_machine(how.path));
    if (how.slow.empty()) {
      compare_arenas(how);
    } else {
      compare_drives(how);
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_devices: {}\n", e.what());
    return 1;
  }
  return 0;
}
