// SPDX-License-Identifier: Apache-2.0

// Compares partial loads, and loads through a window, with whole loads of the same file from the
// drive, in turn. The checkpoint is opened once, before the clock starts.
//
//   shards   one of four equal shards of all matrices, along each of their two dimensions
//   names    100, 1,000 and 10,000 tensors, chosen by name at random
//   window   all tensors through a window of --window bytes; each is released when it is returned

#include <fmt/core.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <functional>
#include <random>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "machine.hpp"
#include "repeat_runs.hpp"
#include "target.hpp"

namespace {

using namespace ringload;
using bench::median;
constexpr auto use_future = ringload::as_exception(boost::asio::use_future);

struct settings {
  std::string path;
  int repeat = 5;
  std::uint64_t window_mib = 512;
  loader_options within;
};

// One way of loading, and the results of its runs.
struct measured {
  std::string what;
  std::function<load_stats(loader&)> load;  // Returns the number of bytes read.
  std::vector<double> seconds = {};
  std::uint64_t wanted = 0;
  std::uint64_t read = 0;
  std::uint64_t peak = 0;
  std::uint64_t pinned = 0;
};

load_stats loaded(loader& with, const checkpoint& from, const selection& which) {
  const model got = with.load_async(from, which, use_future).get();
  return got.stats();
}

load_stats passed_through(loader& with, const checkpoint& from, std::uint64_t window_bytes) {
  tensor_stream load = with.stream_async(from, window_bytes, use_future).get();
  while (load.next_async(use_future).get()) {
  }
  return load.progress();
}

void run(measured& one, const bench::target& file, const settings& how) {
  file.establish(bench::cache_state::cold);
  loader with(host(), how.within);
  const auto begin = std::chrono::steady_clock::now();
  const load_stats stats = one.load(with);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  one.seconds.push_back(took.count());
  one.wanted = stats.bytes_total;
  one.read = stats.bytes_direct + stats.bytes_buffered;
  one.peak = std::max(one.peak, with.memory().tensor_bytes_peak);
  one.pinned = std::max(one.pinned, stats.pinned_bytes_peak);
}

// The other ways are compared with the first way.
void compare(std::vector<measured> ways, const bench::target& file, const settings& how) {
  for (int turn = 0; turn < how.repeat; ++turn) {
    for (measured& each : ways) run(each, file, how);
  }
  fmt::print("\n| {:<26} | {:>7} | {:>6} | {:>14} | {:>14} | {:>14} | {:>10} |\n", "cold", "s",
             "of it", "bytes wanted", "bytes read", "tensors' peak", "pinned");
  fmt::print("|---|---|---|---|---|---|---|\n");
  const double whole = median(ways.front().seconds);
  for (const measured& each : ways) {
    const double seconds = median(each.seconds);
    fmt::print("| {:<26} | {:7.4f} | {:6.3f} | {:>14} | {:>14} | {:>14} | {:>10} |\n", each.what,
               seconds, seconds / whole, each.wanted, each.read, each.peak, each.pinned);
  }
}

std::vector<std::string> matrices_of(const checkpoint& from) {
  std::vector<std::string> names;
  for (const tensor_info& t : from) {
    if (t.shape.size() == 2) names.push_back(t.name);
  }
  if (names.empty()) throw std::runtime_error("there is no matrix in it");
  return names;
}

void compare_shards(const checkpoint& from, const bench::target& file, const settings& how) {
  const std::vector<std::string> names = matrices_of(from);
  const auto shard = [names](std::uint32_t dimension, std::uint32_t rank) {
    selection which;
    which.names(names);
    for (const std::string& name : names) which.shard(name, dimension, rank, 4);
    return which;
  };
  std::vector<measured> ways = {
      {"all matrices", [=](loader& with) { return loaded(with, from, select().names(names)); }}};
  for (const std::uint32_t dimension : {0U, 1U}) {
    for (const std::uint32_t rank : {0U, 3U}) {
      const selection which = shard(dimension, rank);
      ways.push_back({fmt::format("shard {} of 4, dimension {}", rank, dimension),
                      [=](loader& with) { return loaded(with, from, which); }});
    }
  }
  compare(std::move(ways), file, how);
}

void compare_names(const checkpoint& from, const bench::target& file, const settings& how) {
  std::mt19937_64 random(7);
  std::vector<measured> ways;
  for (const std::size_t count : {1'000U, 100U, 10'000U}) {
    if (count > from.size()) continue;
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) {
      // One tensor is chosen from each range of equal length, so no tensor is chosen twice.
      const std::size_t first = i * from.size() / count;
      const std::size_t past = (i + 1) * from.size() / count;
      names.push_back(
          (from.begin() + static_cast<std::ptrdiff_t>(first + random() % (past - first)))->name);
    }
    const selection which = select().names(names);
    ways.push_back({fmt::format("{} of {} tensors", count, from.size()),
                    [=](loader& with) { return loaded(with, from, which); }});
  }
  if (ways.empty()) throw std::runtime_error("there are fewer than 100 tensors in it");
  compare(std::move(ways), file, how);
}

void compare_window(const checkpoint& from, const bench::target& file, const settings& how) {
  const std::uint64_t window_bytes = how.window_mib << 20U;
  compare({{"whole", [=](loader& with) { return loaded(with, from, selection()); }},
           {fmt::format("through {} MiB", how.window_mib),
            [=](loader& with) { return passed_through(with, from, window_bytes); }}},
          file, how);
}

}  // namespace

int main(int argc, char** argv) {
  ringload::bench::arguments app("Parts of a checkpoint, against all of it", "bench_partial_load");
  settings how;
  std::string only;
  app.add_option("FILE", how.path, "A .safetensors file on the drive to be measured").required();
  app.add_option("--repeat", how.repeat, "Runs of each, in turns").between(1, 1000);
  app.add_option("--window-mib", how.window_mib, "The window");
  app.add_option("--only", only, "One of the parts").among({"shards", "names", "window"});
  if (const auto code = app.parse(argc, argv)) return *code;
  try {
    fmt::print("{}\n", bench::describe_machine(how.path));
    const bench::target file(how.path, bench::route::buffered);
    loader opening;
    const auto begin = std::chrono::steady_clock::now();
    const checkpoint from = opening.open_async(how.path, use_future).get();
    (void)from.find("");  // Sorts the names.
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    fmt::print("{} tensors of {} bytes; opened in {:.3f} s\n", from.size(),
               from.catalog().size_bytes(), took.count());
    if (only.empty() || only == "shards") compare_shards(from, file, how);
    if (only.empty() || only == "names") compare_names(from, file, how);
    if (only.empty() || only == "window") compare_window(from, file, how);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_partial_load: {}\n", e.what());
    return 1;
  }
  return 0;
}
