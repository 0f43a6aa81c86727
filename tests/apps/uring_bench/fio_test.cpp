// SPDX-License-Identifier: Apache-2.0
#include "fio.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <ringload/error.hpp>

#include "run_program.hpp"
#include "support/temporary_folder.hpp"

using namespace ringload::bench;

namespace {

bool has(const std::vector<std::string>& arguments, const std::string& one) {
  return std::find(arguments.begin(), arguments.end(), one) != arguments.end();
}

struct sample {
  ringload::testing::temporary_folder folder;
  std::string path = (folder.path() / "a:b").string();
  sample() { std::ofstream(path) << "bytes"; }
};

}  // namespace

TEST_CASE("a cell as fio arguments: the same block, depth, route and order, and never a write") {
  const sample file;
  const target of(file.path, route::buffered);
  cell what;
  what.block_bytes = 1 << 20;
  what.depth = 4;
  what.order = pattern::random;
  what.registered_buffers = true;
  const auto arguments = fio_arguments(of, what);
  CHECK(has(arguments, "--readonly"));
  CHECK(has(arguments, "--rw=randread"));
  CHECK(has(arguments, "--bs=1048576"));
  CHECK(has(arguments, "--iodepth=4"));
  CHECK(has(arguments, "--direct=1"));
  CHECK(has(arguments, "--ioengine=io_uring"));
  CHECK(has(arguments, "--fixedbufs"));
  CHECK(has(arguments, "--time_based"));
  CHECK_FALSE(has(arguments, "--ramp_time=250ms"));
  CHECK(std::any_of(arguments.begin(), arguments.end(),
                    [](const std::string& one) { return one.ends_with("a\\:b"); }));
}

TEST_CASE("both start their clocks with the queue full, unless there is little to read") {
  const sample file;
  const target of(file.path, route::buffered);
  const cell what;
  CHECK(comparable(what).ramp_seconds == 0.25);
  CHECK(has(fio_arguments(of, comparable(what)), "--ramp_time=250ms"));
  cell bounded;
  bounded.bytes_max = 1 << 30;  // No bytes would be left to count.
  CHECK(comparable(bounded).ramp_seconds == 0);
  cell once;
  once.by = route::buffered;
  CHECK(comparable(once).ramp_seconds == 0);
  once.state = cache_state::warm;
  CHECK(comparable(once).ramp_seconds == 0.25);
}

TEST_CASE("threads are fio's jobs, each with one read") {
  const sample file;
  const target of(file.path, route::buffered);
  cell what;
  what.with = method::threads;
  what.by = route::buffered;
  what.state = cache_state::warm;
  what.depth = 3;
  const auto arguments = fio_arguments(of, what);
  CHECK(has(arguments, "--ioengine=psync"));
  CHECK(has(arguments, "--numjobs=3"));
  CHECK(has(arguments, "--iodepth=1"));
  CHECK(has(arguments, "--time_based"));
  // A cold file is cold for one pass only.
  what.state = cache_state::cold;
  what.depth = 1;
  CHECK_FALSE(has(fio_arguments(of, what), "--time_based"));
}

TEST_CASE("fio: several jobs are refused for cold reads through the page cache") {
  const sample file;
  const target of(file.path, route::buffered);
  cell what;
  what.by = route::buffered;
  CHECK_NOTHROW(fio_arguments(of, what));
  what.threads = 2;
  CHECK_THROWS_WITH_AS(fio_arguments(of, what), doctest::Contains("several jobs of fio"),
                       ringload::tool::usage_error);
  what.bytes_max = 1 << 30;
  CHECK_THROWS_AS(fio_arguments(of, what), ringload::tool::usage_error);
  what.state = cache_state::warm;
  CHECK_NOTHROW(fio_arguments(of, what));
  what.threads = 1;
  what.state = cache_state::cold;
  what.with = method::threads;
  what.depth = 2;
  CHECK_THROWS_AS(fio_arguments(of, what), ringload::tool::usage_error);
}

TEST_CASE("fio: several jobs are refused if --bytes is less than a block for each job") {
  const sample file;
  const target of(file.path, route::buffered);
  cell what;
  what.threads = 4;
  what.block_bytes = 4096;
  for (const std::uint64_t bytes : {3U, 4096U, 16383U}) {
    what.bytes_max = bytes;
    CHECK_THROWS_WITH_AS(fio_arguments(of, what),
                         doctest::Contains("of 4 jobs of fio, expected at least 16,384"),
                         ringload::tool::usage_error);
  }
  what.bytes_max = 16384;
  CHECK(has(fio_arguments(of, what), "--io_size=4096"));
  what.with = method::threads;
  what.threads = 1;
  what.depth = 5;
  CHECK_THROWS_AS(fio_arguments(of, what), ringload::tool::usage_error);
  // One job reads one block, as this program does.
  what.depth = 1;
  what.bytes_max = 3;
  CHECK(has(fio_arguments(of, what), "--io_size=3"));
}

TEST_CASE("so many bytes are that many for all jobs together, and then it ends") {
  const sample file;
  const target of(file.path, route::buffered);
  cell what;
  what.threads = 4;
  what.bytes_max = 1 << 30;
  const auto arguments = fio_arguments(of, what);
  CHECK(has(arguments, "--numjobs=4"));
  CHECK(has(arguments, "--io_size=268435456"));
  CHECK_FALSE(has(arguments, "--time_based"));
}

TEST_CASE("what fio cannot do is refused") {
  const sample file;
  const target of(file.path, route::buffered);
  cell what;
  what.into = destination::populated;
  CHECK_THROWS_AS(fio_arguments(of, what), ringload::tool::usage_error);
  what = {};
  what.rings = 2;
  CHECK_THROWS_AS(fio_arguments(of, what), ringload::tool::usage_error);
}

TEST_CASE("fio's report, with a warning before it") {
  const measurement m = parse_fio(
      "fio: a warning\n{\"jobs\": [{\"job_runtime\": 2000, \"usr_cpu\": 10.0, \"sys_cpu\": 15.0,"
      " \"read\": {\"io_bytes\": 4294967296, \"total_ios\": 2048, \"runtime\": 1000}}]}");
  CHECK(m.bytes == std::uint64_t{4} << 30);
  CHECK(m.reads == 2048);
  CHECK(m.seconds == 1);
  CHECK(m.cpu_seconds == doctest::Approx(0.5));
}

TEST_CASE("fio's output that is not a report is an error") {
  CHECK_THROWS_AS(parse_fio("fio: failed to open"), ringload::error);
  CHECK_THROWS_AS(parse_fio("{\"jobs\": []}"), ringload::error);
}
