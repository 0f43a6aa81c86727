// SPDX-License-Identifier: Apache-2.0

// bench_gpu WHAT [CHECKPOINT...]: one part of the table that bench/gpu.sh keeps: machine, copies,
// conversions, notices, or loads, which takes checkpoints and loads each cold, warm, converted, and
// with several limits. Rows are written as they are known, so a part that fails keeps what it has.

#include <exception>
#include <ringload/cuda.hpp>
#include <string>
#include <vector>

#include "gpu.hpp"

int main(int argc, char** argv) {
  using namespace ringload;
  const std::string what = argc > 1 ? argv[1] : "";
  std::string why;
  if (cuda_device_count(&why) == 0) {
    fmt::print(stderr, "bench_gpu: no CUDA device: {}\n", why);
    return 77;
  }
  try {
    if (what == "machine") {
      bench::measure_machine();
    } else if (what == "copies") {
      bench::measure_copies();
    } else if (what == "conversions") {
      bench::measure_conversions();
    } else if (what == "notices") {
      bench::measure_notices();
    } else if (what == "loads") {
      bench::measure_loads(std::vector<std::string>(argv + 2, argv + argc));
    } else {
      fmt::print(stderr,
                 "usage: bench_gpu machine|copies|conversions|notices\n"
                 "       bench_gpu loads CHECKPOINT...\n");
      return 2;
    }
    return 0;
  } catch (const std::exception& e) {
    bench::print_row("FAILED: " + what, "", e.what());
    return 1;
  }
}
