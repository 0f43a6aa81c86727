// SPDX-License-Identifier: Apache-2.0

// bench_gpu PART [CHECKPOINT...]: measures one part of the table that bench/gpu.sh writes. Rows are
// written as soon as they are known, so a part that fails keeps its earlier rows.

#include <exception>
#include <functional>
#include <map>
#include <ringload/cuda.hpp>
#include <string>

#include "gpu.hpp"

namespace {

using namespace ringload;

const std::map<std::string, std::function<void()>> parts = {
    {"contract", bench::measure_contract},       {"machine", bench::measure_machine},
    {"copies", bench::measure_copies},           {"batches", bench::measure_batches},
    {"large-batch", bench::measure_large_batch}, {"conversions", bench::measure_conversions},
    {"notices", bench::measure_notices},
};

const std::map<std::string, std::function<void(const std::string&)>> parts_of_files = {
    {"warm", bench::measure_warm_loads},
    {"warm-once", bench::measure_few_loads},
    {"cold", bench::measure_cold_loads},
    {"ranks", bench::measure_rank_loads},
};

int usage() {
  fmt::print(
      stderr,
      "usage: bench_gpu PART\n       bench_gpu warm|warm-once|cold|ranks CHECKPOINT...\nparts:");
  for (const auto& [name, part] : parts) fmt::print(stderr, " {}", name);
  fmt::print(stderr, "\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto part = parts.find(what);
  const auto of_files = parts_of_files.find(what);
  if (part == parts.end() && (of_files == parts_of_files.end() || argc < 3)) return usage();
  std::string why;
  if (cuda_device_count(&why) == 0) {
    fmt::print(stderr, "bench_gpu: no CUDA device: {}\n", why);
    return 77;
  }
  try {
    if (part != parts.end()) part->second();
    for (int i = 2; i < argc && part == parts.end(); ++i) of_files->second(argv[i]);
    return 0;
  } catch (const std::exception& e) {
    bench::print_row("FAILED: " + what, "", e.what());
    return 1;
  }
}
