// SPDX-License-Identifier: Apache-2.0

// Compares loads to two arenas of the host, which stand for two devices, with loads to one arena.
// With --slow, measures a load from one drive while the same loader also loads from a slower drive.
// The ways are measured in turn.
//
//   spread      each tensor is loaded to the arena with the fewest bytes
//   shards      one half of each matrix, along its first dimension, is loaded to each arena
//   both        everything is read once and loaded to both arenas
//
// The memory of a load is touched shortly before the load, see touch_memory.hpp. The upper bound is
// measured in the same turns: two threads copy the same number of bytes from populated memory to
// one or two regions of fresh memory.

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <ringload/ringload.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "arguments.hpp"
#include "base/mapping.hpp"
#include "machine.hpp"
#include "repeat_runs.hpp"
#include "resource_usage.hpp"
#include "target.hpp"
#include "touch_memory.hpp"

namespace {

using namespace ringload;
using bench::median;
constexpr auto use_future = ringload::as_exception(boost::asio::use_future);

struct settings {
  std::string path;
  std::string slow;
  int repeat = 5;
  bool untouched = false;
  bool steps = false;
};

struct way {
  std::string what;
  std::uint32_t devices;
  std::uint32_t times;  // How often the file's bytes are written to memory.
  selection where = {};
  std::vector<double> seconds = {};
  std::vector<double> cpu_seconds = {};
  std::uint64_t read = 0;
};

// Makes `times` copies of `from` in new memory with two threads. Each thread makes all copies of a
// piece while the piece is in the processor's cache.
double copying_seconds(std::span<const std::byte> from, std::uint32_t times) {
  constexpr std::size_t piece_bytes = huge_page_bytes;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<mapping> to;
  for (std::uint32_t i = 0; i < times; ++i) {
    auto made = mapping::make(from.size(), page_kind::transparent);
    if (!made) throw std::runtime_error("no memory for the copies");
    to.push_back(std::move(*made));
  }
  std::atomic<std::size_t> next = 0;
  const auto copy_pieces = [&] {
    for (std::size_t at = next++ * piece_bytes; at < from.size(); at = next++ * piece_bytes) {
      const std::size_t bytes = std::min(piece_bytes, from.size() - at);
      for (mapping& each : to) {
        std::byte* const into = each.span().data() + at;
        (void)populate({into, bytes});
        std::memcpy(into, from.data() + at, bytes);
      }
    }
  };
  std::thread other(copy_pieces);
  copy_pieces();
  other.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

selection halves(const std::string& path) {
  selection out;
  loader opening;
  const checkpoint file = opening.open_async(path, use_future).get();
  for (const tensor_info& t : file) {
    if (t.shape.size() > 1) out.shard(t.name, 0);
  }
  return out;
}

// How often a load made a step, and the sums of the waiting times and of the working times.
struct step_times {
  std::uint64_t count = 0;
  double waited = 0;
  double busy = 0;
};
using step_table = std::map<load_step, step_times>;

void add_step(const trace_event& what, void* table) noexcept {
  step_times& sum = (*static_cast<step_table*>(table))[what.step];
  ++sum.count;
  sum.waited += std::chrono::duration<double>(what.begin - what.asked).count();
  sum.busy += std::chrono::duration<double>(what.end - what.begin).count();
}

void print_steps(const way& of, const step_table& steps) {
  for (const auto& [step, sum] : steps) {
    fmt::print("{}, {:.3f} s: {} {} times, waited {:.3f} s, busy {:.3f} s\n", of.what,
               of.seconds.back(), name(step), sum.count, sum.waited, sum.busy);
  }
}

void run(way& one, const bench::target& file, bench::cache_state state, const settings& how) {
  file.establish(state);
  if (!how.untouched) bench::touch_free_memory(one.times * file.bytes());
  loader with(std::vector<device>(one.devices, host()));
  const bench::cpu_account used;
  step_table steps;
  load_options options = one.where;
  if (how.steps) {
    options.trace = &add_step;
    options.trace_context = &steps;
  }
  const model loaded = with.load_async(how.path, options, use_future).get();
  one.cpu_seconds.push_back(used.spent().own);
  const load_stats& stats = loaded.stats();
  one.seconds.push_back(stats.seconds);
  one.read = stats.bytes_direct + stats.bytes_buffered;
  print_steps(one, steps);
}

// Measures copies in memory only.
void copy(way& one, std::span<const std::byte> from, const settings& how) {
  if (!how.untouched) bench::touch_free_memory(one.times * from.size());
  const bench::cpu_account used;
  one.seconds.push_back(copying_seconds(from, one.times));
  one.cpu_seconds.push_back(used.spent().own);
  one.read = from.size();
}

void print(const std::vector<way>& ways, std::string_view title) {
  fmt::print("\n| {:<16} | {:>7} | {:>18} | {:>11} | {:>9} | {:>13} | {:>9} |\n", title, "s",
             "least .. most", "bytes read", "read GB/s", "of the first", "CPU s/GiB");
  fmt::print("|---|---|---|---|---|---|---|\n");
  const auto rate = [](const way& w) { return static_cast<double>(w.read) / median(w.seconds); };
  for (const way& each : ways) {
    const auto [least, most] = std::ranges::minmax(each.seconds);
    const double gib = static_cast<double>(each.read) / (1 << 30);
    fmt::print(
        "| {:<16} | {:7.4f} | {:7.4f} .. {:7.4f} | {:>11} | {:9.2f} | {:13.3f} | {:9.3f} |\n",
        each.what, median(each.seconds), least, most, each.read, rate(each) * 1e-9,
        rate(each) / rate(ways.front()), median(each.cpu_seconds) / gib);
  }
}

void compare_arenas(const settings& how) {
  const bench::target file(how.path, bench::route::buffered);
  auto source = mapping::make(file.bytes(), page_kind::transparent);
  if (!source || populate(source->span())) throw std::runtime_error("no memory to copy from");
  for (const auto state : {bench::cache_state::cold, bench::cache_state::warm}) {
    std::vector<way> loads = {{"one arena", 1, 1},
                              {"two, spread", 2, 1, select().spread("*")},
                              {"two, shards", 2, 1, halves(how.path)},
                              {"two, both", 2, 2, select().replicate("*")}};
    std::vector<way> copies = {{"memory to one", 1, 1}, {"memory to both", 2, 2}};
    for (int turn = 0; turn < how.repeat; ++turn) {
      for (way& each : loads) run(each, file, state, how);
      for (way& each : copies) copy(each, source->span().first(file.bytes()), how);
    }
    print(loads, state == bench::cache_state::cold ? "cold" : "warm");
    print(copies, "memory alone");
  }
}

double cold_load(loader& with, const bench::target& file, const std::string& path) {
  file.establish(bench::cache_state::cold);
  return with.load_async(path, use_future).get().stats().seconds;
}

void compare_drives(const settings& how) {
  const bench::target fast(how.path, bench::route::buffered);
  const bench::target slow(how.slow, bench::route::buffered);
  // The same work precedes each way, so that all ways start from the same state.
  const auto touch = [&] {
    if (!how.untouched) bench::touch_free_memory(fast.bytes() + slow.bytes());
  };
  std::vector<double> alone;
  std::vector<double> knowing;
  std::vector<double> beside;
  std::vector<double> slow_alone;
  for (int turn = 0; turn < how.repeat; ++turn) {
    {
      touch();
      loader with;
      alone.push_back(cold_load(with, fast, how.path));
    }
    {
      touch();
      loader with;
      (void)with.open_async(how.slow, use_future).get();
      knowing.push_back(cold_load(with, fast, how.path));
    }
    slow.establish(bench::cache_state::cold);
    touch();
    loader with;
    (void)with.open_async(how.path, use_future).get();  // The loader must know both drives.
    load_operation other = with.start_async(how.slow, use_future).get();
    beside.push_back(cold_load(with, fast, how.path));
    if (other.progress().bytes == other.progress().bytes_total) {
      throw std::runtime_error("the slow load was over before the fast one: give it more bytes");
    }
    slow_alone.push_back(other.finish_async(use_future).get().stats().seconds);
  }
  fmt::print("\n| cold, from the fast drive | s | least .. most | of alone |\n|---|---|---|---|\n");
  const auto row = [&](const std::string& what, const std::vector<double>& seconds) {
    const auto [least, most] = std::ranges::minmax(seconds);
    fmt::print("| {} | {:.4f} | {:.4f} .. {:.4f} | {:.3f} |\n", what, median(seconds), least, most,
               median(seconds) / median(alone));
  };
  row("alone", alone);
  row("alone, by a loader that knows of the slow drive", knowing);
  row(fmt::format("while the slow one is loaded from, in {:.1f} s", median(slow_alone)), beside);
}

}  // namespace

int main(int argc, char** argv) {
  ringload::bench::arguments app("Loads to several devices, and from several drives",
                                 "bench_devices");
  settings how;
  app.add_option("FILE", how.path, "A .safetensors file on the drive to be measured").required();
  app.add_option("--slow", how.slow, "Only beside a load of this one, which is on another drive");
  app.add_flag("--untouched", how.untouched, "Do not touch free memory before a load");
  app.add_flag("--steps", how.steps, "What each kind of step took, and waited for, of each load");
  app.add_option("--repeat", how.repeat, "Runs of each, in turns").between(1, 1000);
  if (const auto code = app.parse(argc, argv)) return *code;
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
