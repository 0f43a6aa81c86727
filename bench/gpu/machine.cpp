// SPDX-License-Identifier: Apache-2.0

// Describes the card, and measures the cost of pinning and allocating memory.

#include "gpu.hpp"

namespace ringload::bench {

namespace {

std::string attribute(cudaDeviceAttr which) {
  int value = -1;
  check(cudaDeviceGetAttribute(&value, which, 0));
  return std::to_string(value);
}

void measure_pinning(const std::string& name, host_memory::pages kind, const char* expected) {
  host_memory memory(gib, kind, false);
  double pinning = 0;
  double unpinning = 0;
  for (int run = 0; run < 3; ++run) {
    const double begin = now();
    memory.pin();
    const double pinned = now();
    memory.unpin();
    pinning = pinned - begin;
    unpinning = now() - pinned;
  }
  print_row("pin 1 GiB, touched before, on " + name, expected,
            fmt::format("{:.0f} ms, unpin {:.0f} ms", pinning * 1e3, unpinning * 1e3));
}

void measure_allocation(std::size_t bytes) {
  void* memory = nullptr;
  const double begin = now();
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    (void)cudaGetLastError();
    return;
  }
  const double taken = now();
  check(cudaFree(memory));
  print_row(fmt::format("cudaMalloc of {} GiB", bytes / gib), "< 5 ms",
            fmt::format("{:.1f} ms, free {:.1f} ms", (taken - begin) * 1e3, (now() - taken) * 1e3));
}

}  // namespace

void measure_machine() {
  check(cudaSetDevice(0));
  cudaDeviceProp card = {};
  check(cudaGetDeviceProperties(&card, 0));
  int driver = 0;
  check(cudaDriverGetVersion(&driver));
  print_row("card", "", card.name);
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  print_row("stream priorities, lowest and highest", "0, -5",
            fmt::format("{}, {}", lowest, highest));
  print_row("driver's CUDA, runtime's CUDA", "", fmt::format("{}, {}", driver, CUDART_VERSION));
  print_row("copy engines", "3", attribute(cudaDevAttrAsyncEngineCount));
  print_row("NUMA node of the host side", "-1 or 0", attribute(cudaDevAttrHostNumaId));
  print_row("registered memory has the host's address on the card", "1",
            attribute(cudaDevAttrCanUseHostPointerForRegisteredMem));
  print_row("pageable memory can be read by the card", "0",
            attribute(cudaDevAttrPageableMemoryAccess));
  measure_pinning("4 KiB pages", host_memory::pages::small, "30 .. 100 ms");
  measure_pinning("huge pages", host_memory::pages::huge, "<= 50 ms");
  for (const std::size_t gibs : {1U, 8U, 32U, 100U}) measure_allocation(gibs * gib);
}

}  // namespace ringload::bench
