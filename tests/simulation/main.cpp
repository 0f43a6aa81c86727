// SPDX-License-Identifier: Apache-2.0

// Runs simulated worlds, one for each seed, and checks each of them.

#include <sched.h>
#include <sys/personality.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "turns.hpp"
#include "workload.hpp"

namespace {

constexpr const char* help =
    "simulation [--first SEED] [--seeds N | --minutes M] [--twice] [--hashes] [--quiet]\n"
    "           [--separate]\n"
    "simulation --seed SEED [--trace] [--separate]\n"
    "\n"
    "Runs the engine in simulated worlds. A seed decides the order of all threads, the time, and\n"
    "all faults. A violation prints the command that repeats it, and the exit code is 1.\n"
    "  --first SEED   The first seed. Default: 1\n"
    "  --seeds N      The number of seeds. Default: 100\n"
    "  --minutes M    Runs seeds for so many minutes.\n"
    "  --twice        Runs each seed twice and compares the order of events.\n"
    "  --hashes       Prints the hash of each seed's order of events.\n"
    "  --seed SEED    Runs one seed and prints the hash of its order of events.\n"
    "  --separate     Each thread of a world is a thread that a debugger can show.\n"
    "  --without PART Removes a part from each world. May be repeated. A wrong name lists the "
    "parts.\n"
    "  --trace        Prints each event: nanoseconds, kind, thread.\n"
    "  --quiet        Prints no progress.\n";

struct arguments {
  std::uint64_t first = 1;
  std::uint64_t seeds = 100;
  double minutes = 0;
  bool twice = false;
  bool hashes = false;
  bool trace = false;
  bool quiet = false;
  bool has_separate_threads = false;
  std::vector<std::string> removed_parts;
};

[[noreturn]] void refuse(const std::string& problem) {
  std::fprintf(stderr, "simulation: error: %s\n\n%s", problem.c_str(), help);
  std::exit(2);
}

std::string part_name(const std::string& text) {
  std::string known;
  for (const std::string& name : ringload::simulation::removable_parts()) {
    if (name == text) return name;
    known += " " + name;
  }
  refuse("--without needs one of these parts:" + known);
}

arguments parse(int count, char** values) {
  arguments parsed;
  for (int i = 1; i < count; ++i) {
    const std::string option = values[i];
    const auto number = [&]() -> double {
      if (i + 1 >= count) refuse(option + " needs a value");
      char* end = nullptr;
      const double value = std::strtod(values[++i], &end);
      if (*end != 0 || end == values[i] || value < 0) refuse(option + ": not a number");
      return value;
    };
    if (option == "--first")
      parsed.first = static_cast<std::uint64_t>(number());
    else if (option == "--seeds")
      parsed.seeds = static_cast<std::uint64_t>(number());
    else if (option == "--minutes")
      parsed.minutes = number();
    else if (option == "--twice")
      parsed.twice = true;
    else if (option == "--hashes")
      parsed.hashes = true;
    else if (option == "--separate")
      parsed.has_separate_threads = true;
    else if (option == "--without")
      parsed.removed_parts.push_back(part_name(i + 1 < count ? values[++i] : ""));
    else if (option == "--trace")
      parsed.trace = true;
    else if (option == "--quiet")
      parsed.quiet = true;
    else if (option == "--seed") {
      parsed.first = static_cast<std::uint64_t>(number());
      parsed.seeds = 1;
      parsed.hashes = true;
    } else if (option == "--help") {
      std::fputs(help, stdout);
      std::exit(0);
    } else {
      refuse("unknown option " + option);
    }
  }
  return parsed;
}

// A few decisions of the engine depend on addresses, so the program starts itself again with the
// addresses of every run.
void start_without_random_addresses(char** values) {
  const int before = ::personality(0xFFFFFFFF);
  if (before < 0 || (before & ADDR_NO_RANDOMIZE) != 0) return;
  if (::personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) < 0) return;
  ::execv("/proc/self/exe", values);
}

// Only one thread runs at any time. On one processor the next thread starts sooner. Processes with
// consecutive numbers choose different processors.
void stay_on_one_processor() {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) == 0) return;
  int left = ::getpid() % CPU_COUNT(&usable);
  std::size_t chosen = 0;
  while (CPU_ISSET(chosen, &usable) == 0 || left-- > 0) ++chosen;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(chosen, &only);
  ::sched_setaffinity(0, sizeof only, &only);
}

// If the heap is damaged, the allocations of violation() may block. Then the program ends after 10
// seconds.
void end_by_signal(int number) {
  ::alarm(10);
  if (ringload::simulation::is_within()) {
    std::fprintf(stderr, "signal %d in seed %llu\n", number,
                 static_cast<unsigned long long>(ringload::simulation::settings().seed));
  }
  ringload::simulation::violation("the process received signal " + std::to_string(number));
}

}  // namespace

int main(int count, char** values) {
  using namespace ringload::simulation;
  using clock = std::chrono::steady_clock;
  const arguments chosen = parse(count, values);
  start_without_random_addresses(values);
  stay_on_one_processor();
  std::set_terminate([] { violation("std::terminate was called"); });
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) std::signal(number, end_by_signal);
  if (chosen.has_separate_threads) use_separate_threads();
  const known_files files;
  const clock::time_point begin = clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(clock::now() - begin).count(); };
  run_result total;
  std::uint64_t seed = chosen.first;
  for (;; ++seed) {
    const bool is_over =
        chosen.minutes > 0 ? seconds() >= 60 * chosen.minutes : seed >= chosen.first + chosen.seeds;
    if (is_over) break;
    world_settings settings = settings_of(seed, chosen.removed_parts);
    for (const std::string& name : chosen.removed_parts) settings.options += " --without " + name;
    settings.prints_trace = chosen.trace;
    const run_result ran = run_world(settings, files);
    settings.prints_trace = false;
    if (chosen.twice && run_world(settings, files).trace_hash != ran.trace_hash) {
      std::fprintf(stderr, "seed %llu: a second run has another order of events\n",
                   static_cast<unsigned long long>(seed));
      return 1;
    }
    total.operations += ran.operations;
    total.failed += ran.failed;
    total.cancelled += ran.cancelled;
    total.transfers += ran.transfers;
    total.turns += ran.turns;
    if (chosen.hashes) {
      std::printf("seed %llu trace %016llx\n", static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(ran.trace_hash));
    }
    if (!chosen.quiet && seed % 1000 == 0) {
      std::fprintf(stderr, "seed %llu, %.0f s\n", static_cast<unsigned long long>(seed), seconds());
    }
  }
  std::printf(
      "%llu worlds, %llu operations (%llu failed by a fault, %llu cancelled), %llu reads and "
      "writes, %llu turns, %.1f s\n",
      static_cast<unsigned long long>(seed - chosen.first),
      static_cast<unsigned long long>(total.operations),
      static_cast<unsigned long long>(total.failed),
      static_cast<unsigned long long>(total.cancelled),
      static_cast<unsigned long long>(total.transfers),
      static_cast<unsigned long long>(total.turns), seconds());
  return 0;
}
