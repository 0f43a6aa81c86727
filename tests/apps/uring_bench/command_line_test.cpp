// SPDX-License-Identifier: Apache-2.0
#include "command_line.hpp"

#include <doctest/doctest.h>

#include "manual_text.hpp"
#include "run_program.hpp"

using namespace ringload::bench;
using ringload::tool::usage_error;

namespace {

any_request parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "uring-bench");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

cell run_cell_of(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"run", "file"});
  return std::get<run_request>(parsed(arguments)).config;
}

// Returns true if the help of a command, or of the program, contains the text.
bool helps_with(const char* command, const char* config) {
  const std::vector<const char*> arguments =
      *command == '\0' ? std::vector{"--help"} : std::vector{command, "--help"};
  return std::get<text_request>(parsed(arguments)).text.find(config) != std::string::npos;
}

}  // namespace

TEST_CASE("fio's names mean what they mean to fio") {
  const cell config = run_cell_of({"--rw", "randread", "--bs", "4k", "--iodepth", "64", "--numjobs",
                                   "4", "--direct", "0", "--runtime", "3"});
  CHECK(config.order == pattern::random);
  CHECK(config.block_bytes == 4096);
  CHECK(config.depth == 64);
  CHECK(config.threads == 4);
  CHECK(config.by == route::buffered);
  CHECK(config.seconds == 3);
  CHECK(run_cell_of({"--direct", "1"}).by == route::direct);
  CHECK(run_cell_of({"--rw", "read"}).order == pattern::sequential);
  CHECK_THROWS_AS(run_cell_of({"--rw", "randwrite"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--rw", "read", "--pattern", "rand"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--direct", "1", "--route", "buffered"}), usage_error);
}

TEST_CASE("manual: every example can be parsed") {
  for (const ringload::tool::example& each : examples) {
    std::vector<std::string> words(1);
    for (const char c : each.command_line) {
      if (c == ' ') {
        words.emplace_back();
      } else {
        words.back() += c;
      }
    }
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    CHECK_NOTHROW_MESSAGE(parse_command_line(static_cast<int>(argv.size()), argv.data()),
                          each.command_line);
  }
}

TEST_CASE("the defaults are a sensible cell") {
  const cell config = run_cell_of({});
  CHECK(config.with == method::ring);
  CHECK(config.by == route::direct);
  CHECK(config.into == destination::slots);
  CHECK(config.state == cache_state::cold);
  CHECK(config.block_bytes == 2 << 20);
  CHECK(config.bytes_in_flight() == 16 << 20);
}

TEST_CASE("the command line can set every part of a cell") {
  const cell config =
      run_cell_of({"--block", "512K", "--depth", "3", "--seconds", "0.5", "--pattern", "rand",
                   "--route", "buffered", "--pages", "4k", "--engine", "threads", "--into",
                   "populated", "--state", "warm"});
  CHECK(config.block_bytes == 512 << 10);
  CHECK(config.depth == 3);
  CHECK(config.seconds == 0.5);
  CHECK(config.order == pattern::random);
  CHECK(config.by == route::buffered);
  CHECK(config.pages == ringload::page_kind::small);
  CHECK(config.with == method::threads);
  CHECK(config.into == destination::populated);
  CHECK(config.state == cache_state::warm);
}

TEST_CASE("bytes in flight are shared by all rings") {
  const cell config =
      run_cell_of({"--block", "1M", "--rings", "2", "--threads", "2", "--bytes-in-flight", "16M"});
  CHECK(config.depth == 4);
  CHECK(config.bytes_in_flight() == 16 << 20);
  CHECK(run_cell_of({"--block", "4M", "--bytes-in-flight", "1M"}).depth == 1);
}

TEST_CASE("a cell that contradicts itself is refused") {
  CHECK_THROWS_AS(run_cell_of({"--engine", "mmap"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--engine", "threads", "--sqpoll"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--route", "buffered", "--iopoll"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--block", "1000"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--block", "0"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--depth", "0"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--seconds", "0"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--seconds", "nan"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--runs", "0"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--registered-buffers", "--into", "fresh"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--depth", "2", "--bytes-in-flight", "1M"}), usage_error);
  CHECK_THROWS_AS(run_cell_of({"--pages", "2M"}), usage_error);
}

TEST_CASE("a time that is no number of seconds is refused") {
  for (const char* seconds : {"nan", "inf", "-1", "0.0001", "86401", "1s", ""}) {
    CHECK_THROWS_AS(parsed({"net", "x", "--seconds", seconds}), usage_error);
    CHECK_THROWS_AS(parsed({"tune", "x", "--seconds", seconds}), usage_error);
    CHECK_THROWS_AS(parsed({"sweep", "x", "--seconds", seconds}), usage_error);
  }
  CHECK(std::get<net_request>(parsed({"net", "x", "--seconds", "1e-3"})).seconds == 0.001);
  CHECK(std::get<tune_request>(parsed({"tune", "x", "--seconds", "1"})).seconds == 1);
  // Shorter measurements would exceed their time.
  CHECK_THROWS_AS(parsed({"tune", "x", "--seconds", "0.9"}), usage_error);
}

TEST_CASE("too many reads in flight are refused with the names of both options") {
  for (const char* engine : {"ring", "threads"}) {
    CHECK_THROWS_WITH_AS(
        run_cell_of({"--engine", engine, "--block", "512", "--bytes-in-flight", "1T"}),
        doctest::Contains("--depth, --bytes-in-flight"), usage_error);
  }
}

TEST_CASE("a sweep takes lists") {
  const auto request = std::get<sweep_request>(parsed(
      {"sweep", "file", "--blocks", "1M,2M", "--bytes-in-flight", "8M", "--pages", "4k,thp"}));
  CHECK(request.blocks == std::vector<std::uint64_t>{1 << 20, 2 << 20});
  CHECK(request.bytes_in_flight == std::vector<std::uint64_t>{8 << 20});
  CHECK(request.pages.size() == 2);
  CHECK_THROWS_AS(parsed({"sweep", "file", "--blocks", "1M,x"}), usage_error);
  CHECK_THROWS_AS(parsed({"sweep", "file", "--blocks", "0"}), usage_error);
  CHECK_THROWS_AS(parsed({"sweep", "file", "--pages", "4k,huge"}), usage_error);
}

TEST_CASE("stages take what a loader may use, as `ringload load` does and `tune` prints it") {
  const auto request = std::get<stages_request>(
      parsed({"stages", "model", "--device", "auto", "--slots", "8", "--slot-bytes", "512K",
              "--bytes-in-flight", "3M", "--copy-threads", "2"}));
  CHECK(request.source == "model");
  CHECK(request.device == "auto");
  CHECK(request.options.slots == 8);
  CHECK(request.options.slot_bytes == 512 << 10);
  CHECK(request.options.bytes_in_flight == 3 << 20);
  CHECK(request.options.copy_threads == 2);
  CHECK(std::get<stages_request>(parsed({"stages", "model"})).options.slots ==
        ringload::loader_options().slots);
  CHECK_THROWS_AS(parsed({"stages", "model", "--slots", "-1"}), usage_error);
  CHECK_THROWS_AS(parsed({"stages", "model", "--slot-bytes", "many"}), usage_error);
  CHECK_THROWS_AS(parsed({"stages", "model", "--device", "nonsense"}), usage_error);
}

TEST_CASE("help states the limit of a cold block device, and the refusals of --with-fio") {
  for (const char* command : {"run", "sweep"}) {
    CHECK(helps_with(command, "A cold block device may have up to 1 %"));
    CHECK(helps_with(command, "More than one job is refused for cold buffered"));
    CHECK(helps_with(command, "--bytes is less than one block for each job"));
  }
}

TEST_CASE("help explains what a command takes, and nothing else") {
  for (const char* command : {"run", "sweep", "tune"}) CHECK(helps_with(command, "TARGET is "));
  for (const char* command : {"", "stages", "probe"})
    CHECK_FALSE(helps_with(command, "TARGET is "));
  CHECK(helps_with("stages", "SOURCE is "));
  CHECK(helps_with("stages", "auto: "));
  CHECK(helps_with("probe", "PATH is "));
  CHECK(helps_with("probe", "8 MiB without a name"));
  for (const char* command : {"run", "sweep", "stages"}) CHECK(helps_with(command, "SIZE is "));
  for (const char* command : {"", "probe", "tune"}) CHECK_FALSE(helps_with(command, "SIZE is "));
}

TEST_CASE("a command is needed, and a target") {
  CHECK_THROWS_AS(parsed({}), usage_error);
  CHECK_THROWS_AS(parsed({"run"}), usage_error);
  CHECK_THROWS_AS(parsed({"write", "file"}), usage_error);
  CHECK(std::holds_alternative<text_request>(parsed({"--help"})));
  CHECK(std::get<probe_request>(parsed({"probe"})).path == ".");
}

TEST_CASE("net has lists of connections and chunks") {
  const auto net = std::get<net_request>(
      parsed({"net", "https://host/x", "--connections", "1,64", "--chunks", "64K,2M"}));
  CHECK(net.target == "https://host/x");
  CHECK(net.connections == std::vector<std::uint32_t>{1, 64});
  CHECK(net.chunks == std::vector<std::uint64_t>{64 << 10, 2 << 20});
  CHECK(std::get<net_request>(parsed({"net", "hf://a/b"})).connections.size() == 6);
  for (const char* wrong : {"0", "2000", "x", "1,,2"}) {
    CHECK_THROWS_AS(parsed({"net", "x", "--connections", wrong}), usage_error);
  }
  for (const char* wrong : {"1K", "2G", ""}) {
    CHECK_THROWS_AS(parsed({"net", "x", "--chunks", wrong}), usage_error);
  }
  CHECK(helps_with("net", "s3://bucket/key"));
}
