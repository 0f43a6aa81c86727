// SPDX-License-Identifier: Apache-2.0

// Compares three ways to get a model: attaching to a model of a keeper process, loading the file,
// and mapping the file. Measures the time to get the model, and the time to read all of its bytes.
// Also measures how long a reader needs to learn of a new version, and to attach that version, and
// how long a switch stops a reader that reads all the time.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "arguments.hpp"

namespace {

using namespace ringload;
using clock = std::chrono::steady_clock;
constexpr auto use_future = ringload::as_exception(boost::asio::use_future);

double ms_since(clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(clock::now() - begin).count();
}

// Returns the private memory of this process.
double anonymous_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "RssAnon:" && status >> kib) return kib / 1024;
  }
  return 0;
}

std::uint64_t sum_of(const model& held) {
  std::uint64_t sum = 0;
  for (const tensor& each : held) {
    const auto* const bytes = static_cast<const char*>(each.data());
    for (std::uint64_t at = 0; at + 8 <= each.size_bytes(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + at, 8);
      sum += word;
    }
  }
  return sum;
}

struct way {
  std::string name;
  std::function<model()> have;
  std::vector<double> ms_to_have = {};
  std::vector<double> ms_to_read = {};
  double mib = 0;
  std::uint64_t sum = 0;

  void run() {
    const double before = anonymous_mib();
    clock::time_point begin = clock::now();
    const model held = have();
    ms_to_have.push_back(ms_since(begin));
    begin = clock::now();
    sum = sum_of(held);
    ms_to_read.push_back(ms_since(begin));
    mib = std::max(mib, anonymous_mib() - before);
  }
  void print() {
    std::sort(ms_to_have.begin(), ms_to_have.end());
    std::sort(ms_to_read.begin(), ms_to_read.end());
    fmt::print("| {:<28} | {:>10.3f} | {:>10.3f} | {:>10.3f} | {:>10.1f} | {:>8.1f} |\n", name,
               ms_to_have[ms_to_have.size() / 2], ms_to_have.front(), ms_to_have.back(),
               ms_to_read[ms_to_read.size() / 2], mib);
  }
};

void print_times(const char* name, std::vector<double> ms) {
  std::sort(ms.begin(), ms.end());
  fmt::print("{:<58} {:>8.3f} ms, {:.3f} to {:.3f}\n", name, ms[ms.size() / 2], ms.front(),
             ms.back());
}

// Publishes versions while a reader waits for the next version.
void measure_switches(keeper& keeps, const std::string& socket, const model& loaded, int repeat) {
  std::vector<double> ask_ms, switch_ms;
  model held = attach(socket, "m");
  for (int i = 0; i < repeat; ++i) {
    const kept_version current = attached_version(held);
    clock::time_point begin = clock::now();
    if (served_version(socket, "m") != current) throw std::runtime_error("another version");
    ask_ms.push_back(ms_since(begin));
    auto next = attach_next_async(socket, "m", current, use_future);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // The reader waits.
    begin = clock::now();
    keeps.publish("m", loaded);
    held = next.get();
    switch_ms.push_back(ms_since(begin));
  }
  print_times("ask for the served version", std::move(ask_ms));
  print_times("from publish() to the attached version in a waiting reader", std::move(switch_ms));
}

// A reader that reads pieces of the model in a loop, and takes the next version between two reads.
struct looping_reader {
  // Reads until `stop`. Records the time of each loop.
  void run(const std::string& socket) {
    model held = attach(socket, "m");
    auto next = attach_next_async(socket, "m", attached_version(held), use_future);
    std::size_t index = 0;
    while (!stop) {
      const clock::time_point begin = clock::now();
      const bool is_switch = next.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
      if (is_switch) held = next.get();
      const tensor read = held[index++ % held.size()];
      const auto* const bytes = static_cast<const char*>(read.data());
      for (std::uint64_t at = 0; at < std::min<std::uint64_t>(read.size_bytes(), 4096); ++at) {
        sum += static_cast<unsigned char>(bytes[at]);
      }
      (is_switch ? switch_ms : read_ms).push_back(ms_since(begin));
      if (is_switch) next = attach_next_async(socket, "m", attached_version(held), use_future);
      switches = switch_ms.size();
    }
    keeps_waiting = std::move(next);
  }

  std::atomic<bool> stop = false;
  std::atomic<std::size_t> switches = 0;
  std::uint64_t sum = 0;
  std::vector<double> read_ms;    // Loops without a switch.
  std::vector<double> switch_ms;  // Loops that took the next version.
  std::future<model> keeps_waiting;
};

void measure_pauses(keeper& keeps, const std::string& socket, const model& loaded, int repeat) {
  looping_reader reader;
  std::thread thread([&] { reader.run(socket); });
  for (std::size_t i = 0; i < static_cast<std::size_t>(repeat); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    keeps.publish("m", loaded);
    while (reader.switches <= i) std::this_thread::yield();
  }
  reader.stop = true;
  thread.join();
  keeps.publish("m", loaded);  // Ends the reader's last wait.
  reader.keeps_waiting.get();
  print_times("a loop of a reader that takes the next version", std::move(reader.switch_ms));
  print_times("a loop of the same reader without a switch", std::move(reader.read_ms));
}

}  // namespace

int main(int argc, char** argv) {
  ringload::bench::arguments app("Attaching to a kept model, beside loading and mapping it",
                                 "bench_keeper");
  std::string file;
  int repeat = 5;
  app.add_option("FILE", file, "A checkpoint").required();
  bool only_attach = false;
  app.add_flag("--only-attach", only_attach, "Neither map nor load the file beside it");
  app.add_option("--repeat", repeat, "Runs of each, in turns").between(1, 10'000);
  if (const auto code = app.parse(argc, argv)) return *code;

  try {
    const std::string socket = fmt::format("/tmp/bench_keeper.{}", ::getpid());
    keeper keeps(socket);
    loader with;
    load_options mapped;
    mapped.memory = tensor_memory::mapped;
    mapped.unmappable = on_unmappable::copy;
    {
      loader shared(shared_host());
      const model loaded = shared.load_async(file, use_future).get();
      const clock::time_point begin = clock::now();
      keeps.publish("m", loaded);
      fmt::print("{} tensors, {:.3f} GiB; published in {:.1f} ms\n\n", loaded.size(),
                 static_cast<double>(loaded.catalog().size_bytes()) / (1ULL << 30U),
                 ms_since(begin));
      measure_switches(keeps, socket, loaded, 20 * repeat);
      measure_pauses(keeps, socket, loaded, 20 * repeat);
      fmt::print("\n");
    }
    std::vector<way> all = {
        {"attach to it", [&] { return attach(socket, "m"); }},
        {"map the file", [&] { return with.load_async(file, mapped, use_future).get(); }},
        {"load the file, warm", [&] { return with.load_async(file, use_future).get(); }}};
    if (only_attach) all.resize(1);
    for (int i = 0; i < repeat; ++i) {
      for (way& each : all) each.run();
    }
    fmt::print("| {:<28} | {:>10} | {:>10} | {:>10} | {:>10} | {:>8} |\n", "", "ms, median",
               "least", "most", "read, ms", "MiB own");
    fmt::print("|---|---|---|---|---|---|\n");
    for (way& each : all) {
      each.print();
      if (each.sum != all[0].sum) throw std::runtime_error(each.name + ": other bytes");
    }
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_keeper: {}\n", e.what());
    return 1;
  }
  return 0;
}
