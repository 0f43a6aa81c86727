// SPDX-License-Identifier: Apache-2.0

// Compares fills, which are loads into the caller's memory, with plain reads into the same memory.
// Both are measured in turn.
//
//   cold: plain direct reads with io_uring, `--depth` reads of `--block-kib` in flight
//   warm: two threads that call pread
//
// The checkpoint is opened and the memory is populated before the clock starts. So the time of a
// fill consists of matching, planning and reading. Two positions of the memory are measured. With
// `aligned`, each tensor has the same offset within a block as in the file. With `anywhere`, each
// tensor begins 64 bytes after a multiple of 4,096, as memory of an allocator does.

#include <fmt/core.h>

#include <boost/asio/use_future.hpp>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "base/checked.hpp"
#include "base/io_unit.hpp"
#include "base/mapping.hpp"
#include "machine.hpp"
#include "repeat_runs.hpp"
#include "run.hpp"

namespace {

using namespace ringload;
using bench::median;

// Memory for all tensors, one after another.
class populated_places {
 public:
  populated_places(const checkpoint& from, bool aligned) {
    std::uint64_t bytes = 0;
    std::vector<std::uint64_t> offsets;
    for (const tensor_info& t : from) {
      const std::uint64_t within = aligned ? t.offset % block_bytes : 64;
      offsets.push_back(round_up(bytes, std::uint64_t{block_bytes}) + within);
      bytes = offsets.back() + t.bytes;
    }
    auto made = mapping::make(round_up(bytes, std::uint64_t{block_bytes}), page_kind::transparent);
    if (!made || populate(made->span())) throw std::runtime_error("no memory for the tensors");
    memory_ = std::move(*made);
    std::size_t i = 0;
    for (const tensor_info& t : from) {
      into_.push_back({t.name, memory_.span().data() + offsets[i++], t.dtype, t.shape});
    }
  }

  const std::vector<destination>& into() const noexcept { return into_; }

 private:
  mapping memory_;
  std::vector<destination> into_;
};

struct settings {
  std::string path;
  int repeat = 9;
  loader_options within;
  unsigned depth = 4;
  std::uint32_t block_kib = 1024;
};

void print(const char* name, const std::vector<double>& seconds, double plain, double bytes) {
  fmt::print("| {:<28} | {:6.3f} | {:5.2f} | {:5.3f} |\n", name, median(seconds),
             bytes / median(seconds) * 1e-9, plain / median(seconds));
}

void compare(const settings& how, bool cold, bench::read_buffer& memory) {
  const auto by = cold ? bench::route::direct : bench::route::buffered;
  const auto state = cold ? bench::cache_state::cold : bench::cache_state::warm;
  const bench::target file(how.path, by);
  bench::cell what;
  what.into = bench::destination::populated;
  what.bytes_max = file.bytes();
  what.seconds = 3600;
  what.by = by;
  what.state = state;
  what.with = cold ? what.with : bench::method::threads;
  what.depth = cold ? how.depth : 2;
  if (cold) what.block_bytes = how.block_kib << 10U;

  loader with(host(), how.within);
  const checkpoint opened =
      with.open_async(how.path, ringload::as_exception(boost::asio::use_future)).get();
  const populated_places aligned(opened, true);
  const populated_places anywhere(opened, false);
  std::vector<double> plain;
  std::vector<double> fills[2];
  load_stats seen[2];
  for (int run = 0; run < how.repeat; ++run) {
    plain.push_back(bench::run(file, what, memory).seconds);
    for (const int place : {0, 1}) {
      file.establish(state);
      const auto& into = (place == 0 ? aligned : anywhere).into();
      seen[place] = with.fill_async(opened, into, ringload::as_exception(boost::asio::use_future))
                        .get()
                        .stats;
      fills[place].push_back(seen[place].seconds);
    }
  }
  const auto bytes = static_cast<double>(opened.catalog().size_bytes());
  fmt::print("\n{}, {} runs of each in turns:\n\n", cold ? "Cold" : "Warm", how.repeat);
  fmt::print("| {:<28} | {:>6} | {:>5} | {:>5} |\n|---|---|---|---|\n", "median of the runs", "s",
             "GB/s", "share");
  print(cold ? "plain io_uring, direct" : "pread, 2 threads", plain, median(plain), bytes);
  print("fill, aligned as the file", fills[0], median(plain), bytes);
  print("fill, 64 past a block", fills[1], median(plain), bytes);
  for (const load_stats& each : seen) {
    fmt::print(
        "\nThe last: {} reads; {:.3f} of the bytes unstaged, {:.3f} direct; {:.4f} s to plan",
        each.reads, static_cast<double>(each.bytes_unstaged) / bytes,
        static_cast<double>(each.bytes_direct) / bytes, each.seconds_opening);
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  ringload::bench::arguments app("Fills of populated memory against plain reads into it",
                                 "bench_fill");
  settings how;
  std::string only;
  app.add_option("FILE", how.path, "A .safetensors file on the drive to be measured").required();
  app.add_option("--repeat", how.repeat, "Runs of each, in turns").between(1, 1000);
  app.add_option("--slots", how.within.slots, "As loader_options::slots");
  app.add_option("--slot-bytes", how.within.slot_bytes, "As loader_options::slot_bytes");
  app.add_option("--bytes-in-flight", how.within.bytes_in_flight,
                 "As loader_options::bytes_in_flight");
  app.add_option("--copy-threads", how.within.copy_threads, "As loader_options::copy_threads");
  app.add_option("--depth", how.depth, "Plain direct reads in flight");
  app.add_option("--block-kib", how.block_kib, "Their size");
  app.add_option("--only", only, "One of the two parts").among({"cold", "warm"});
  if (const auto code = app.parse(argc, argv)) return *code;
  try {
    fmt::print("{}\n", bench::describe_machine(how.path));
    bench::read_buffer memory;
    if (only != "warm") compare(how, true, memory);
    if (only != "cold") compare(how, false, memory);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_fill: {}\n", e.what());
    return 1;
  }
  return 0;
}
