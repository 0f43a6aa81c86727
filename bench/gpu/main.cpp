// SPDX-License-Identifier: Apache-2.0

// bench_gpu [CHECKPOINT...]: the table that bench/gpu.sh keeps. Each checkpoint is loaded cold,
// warm, and with several limits.

#include <exception>
#include <ringload/cuda.hpp>
#include <string>
#include <vector>

#include "gpu.hpp"

int main(int argc, char** argv) {
  using namespace ringload;
  std::string why;
  if (cuda_device_count(&why) == 0) {
    fmt::print(stderr, "bench_gpu: no CUDA device: {}\n", why);
    return 77;
  }
  try {
    const std::vector<std::string> paths(argv + 1, argv + argc);
    bench::print_row("what", "expected", "measured");
    bench::print_row("---", "---", "---");
    bench::measure_machine();
    bench::measure_copies();
    bench::measure_notices();
    bench::measure_loads(paths);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_gpu: {}\n", e.what());
    return 1;
  }
}
