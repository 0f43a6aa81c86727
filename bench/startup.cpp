// SPDX-License-Identifier: Apache-2.0

// Measures the fixed costs of a loader, apart from the bytes that it loads. A small checkpoint is
// best.
//
// For whole processes, `TOOL load FILE` runs in turn for each tool. The results are the wall time
// of the process, its processor time, and its peak resident memory. For a loader in this process,
// the results are the times to create and to destroy a loader, and the resident memory: before,
// while the loader is idle, and after it has loaded the file.

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <fstream>
#include <optional>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "arguments.hpp"

namespace {

using namespace ringload;
using clock = std::chrono::steady_clock;

double ms_since(clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(clock::now() - begin).count();
}

double ms_of(const ::timeval& t) {
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
}

struct figures {
  std::string name;
  std::vector<double> of;

  void print() {
    std::sort(of.begin(), of.end());
    fmt::print("| {} | {:.2f} | {:.2f} .. {:.2f} |\n", name, of[of.size() / 2], of.front(),
               of.back());
  }
};

void print_head(const std::string& what) {
  fmt::print("\n| {} | median | least .. most |\n|---|---|---|\n", what);
}

// Runs `TOOL load FILE` without output.
class process {
 public:
  explicit process(std::string tool)
      : tool_(std::move(tool)),
        wall_{tool_ + ", ms", {}},
        processor_{"its processor time, ms", {}},
        resident_{"resident at most, MiB", {}} {}

  void run(const std::string& file) {
    std::string words[] = {tool_, "load", file, "--no-progress"};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                         nullptr};
    ::posix_spawn_file_actions_t silent;
    ::posix_spawn_file_actions_init(&silent);
    ::posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    const clock::time_point begin = clock::now();
    ::pid_t child = 0;
    const int failed = ::posix_spawn(&child, tool_.c_str(), &silent, nullptr, arguments, ::environ);
    ::posix_spawn_file_actions_destroy(&silent);
    if (failed != 0) throw std::system_error(failed, std::system_category(), tool_);
    int status = 0;
    ::rusage used = {};
    if (::wait4(child, &status, 0, &used) < 0) {
      throw std::system_error(errno, std::system_category(), "wait4");
    }
    wall_.of.push_back(ms_since(begin));
    if (status != 0) throw std::runtime_error(tool_ + " failed");
    processor_.of.push_back(ms_of(used.ru_utime) + ms_of(used.ru_stime));
    resident_.of.push_back(static_cast<double>(used.ru_maxrss) / 1024);
  }

  void print() {
    wall_.print();
    processor_.print();
    resident_.print();
  }

 private:
  std::string tool_;
  figures wall_;
  figures processor_;
  figures resident_;
};

// Returns the resident memory of this process.
double resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib / 1024;
  }
  throw std::runtime_error("no VmRSS in /proc/self/status");
}

void measure_loaders(const std::string& file, int repeat) {
  figures making = {"making a loader, ms", {}};
  figures loading = {"its first load, ms", {}};
  figures destroying = {"destroying it, ms", {}};
  figures before = {"resident without one, MiB", {}};
  figures idle = {"with one that is idle, MiB", {}};
  figures loaded = {"with one that has loaded, MiB", {}};
  for (int i = 0; i < repeat; ++i) {
    before.of.push_back(resident_mib());
    std::optional<loader> one;
    clock::time_point begin = clock::now();
    one.emplace();
    making.of.push_back(ms_since(begin));
    idle.of.push_back(resident_mib());
    begin = clock::now();
    (void)one->load_async(file, ringload::as_exception(boost::asio::use_future)).get();
    loading.of.push_back(ms_since(begin));
    loaded.of.push_back(resident_mib());
    begin = clock::now();
    one.reset();
    destroying.of.push_back(ms_since(begin));
  }
  print_head(fmt::format("a loader, {} times", repeat));
  for (figures* all : {&making, &loading, &destroying, &before, &idle, &loaded}) all->print();
}

}  // namespace

int main(int argc, char** argv) {
  ringload::bench::arguments app("What a loader costs beside the bytes that it loads",
                                 "bench_startup");
  std::string file;
  std::vector<std::string> tools;
  int repeat = 51;
  app.add_option("FILE", file, "A checkpoint, best a small one").required();
  app.add_option("TOOL", tools, "A ringload tool; several take turns");
  app.add_option("--repeat", repeat, "Runs of each").between(1, 100'000);
  if (const auto code = app.parse(argc, argv)) return *code;

  try {
    // Must be first, while this process is small: the peak of a child includes its parent's memory.
    std::vector<process> all(tools.begin(), tools.end());
    for (const std::string& tool : tools) process(tool).run(file);  // Fills the page cache.
    for (int i = 0; i < repeat; ++i) {
      for (process& one : all) one.run(file);
    }
    if (!all.empty()) print_head(fmt::format("a process, {} times", repeat));
    for (process& one : all) one.print();
    measure_loaders(file, repeat);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_startup: {}\n", e.what());
    return 1;
  }
  return 0;
}
