// SPDX-License-Identifier: Apache-2.0

// Measures pinned copies to the device by size, number of streams, page kind and alignment, and the
// cost of one call.

#include <vector>

#include "gpu.hpp"

namespace ringload::bench {

namespace {

constexpr std::size_t buffer_bytes = 256 * mib;
constexpr unsigned runs = 7;

struct shape {
  std::size_t bytes;
  unsigned streams;
  std::size_t to_offset = 0;
};

// Returns the seconds to copy the whole buffer once.
double move_all(const host_memory& from, const device_memory& to, const shape& how) {
  std::vector<stream> streams(how.streams);
  return seconds_of(runs, [&] {
    unsigned next = 0;
    for (std::size_t at = 0; at + how.bytes <= buffer_bytes; at += how.bytes) {
      check(cudaMemcpyAsync(to.data() + at + how.to_offset, from.data() + at, how.bytes,
                            cudaMemcpyHostToDevice, streams[next++ % how.streams].get()));
    }
    for (const stream& each : streams) each.wait();
  });
}

void measure_call(const host_memory& from, const device_memory& to, std::size_t bytes,
                  const char* expected) {
  constexpr std::size_t count = 4096;
  const stream on;
  double calling = 0;
  const double whole = seconds_of(runs, [&] {
    const double begin = now();
    for (std::size_t i = 0; i < count; ++i) {
      check(cudaMemcpyAsync(to.data() + i * bytes, from.data() + i * bytes, bytes,
                            cudaMemcpyHostToDevice, on.get()));
    }
    calling = now() - begin;
    on.wait();
  });
  print_row(fmt::format("{} copies of {} KiB, a call each", count, bytes / 1024), expected,
            fmt::format("{:.2f} us a call, {}", calling * 1e6 / count, rate(count * bytes, whole)));
}

#if CUDART_VERSION >= 13000
void measure_batch(const host_memory& from, const device_memory& to, std::size_t bytes,
                   std::size_t count, const char* expected) {
  const stream on;
  std::vector<void*> targets;
  std::vector<const void*> sources;
  const std::vector<std::size_t> sizes(count, bytes);
  for (std::size_t i = 0; i < count; ++i) {
    targets.push_back(to.data() + i * bytes);
    sources.push_back(from.data() + i * bytes);
  }
  cudaMemcpyAttributes how = {};
  how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  double calling = 0;
  const double whole = seconds_of(runs, [&] {
    const double begin = now();
    check(cudaMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), count, &how, &first, 1,
                               on.get()));
    calling = now() - begin;
    on.wait();
  });
  print_row(fmt::format("{} copies of {} KiB, one batch", count, bytes / 1024), expected,
            fmt::format("{:.2f} us a copy, {}", calling * 1e6 / static_cast<double>(count),
                        rate(count * bytes, whole)));
}
#endif

}  // namespace

void measure_copies() {
  const host_memory huge(buffer_bytes, host_memory::pages::huge);
  const device_memory to(buffer_bytes + mib);
  const auto row = [&](const host_memory& from, const shape& how, const std::string& what,
                       const char* expected) {
    print_row(fmt::format("copies of {} KiB, {} stream(s){}", how.bytes / 1024, how.streams, what),
              expected, rate(buffer_bytes, move_all(from, to, how)));
  };
  for (const std::size_t kib : {64U, 256U, 1024U, 2048U, 4096U, 8192U, 16384U, 65536U}) {
    for (const unsigned streams : {1U, 2U, 4U}) {
      row(huge, {kib * 1024, streams}, "", kib >= 2048 ? "52 .. 56 GB/s" : "less");
    }
  }
  {
    const host_memory small(buffer_bytes, host_memory::pages::small);
    row(small, {2 * mib, 2}, ", 4 KiB pages", "as huge ones");
  }
  for (const std::size_t offset : {1U, 8U, 16U, 64U, 128U}) {
    row(huge, {64 * 1024, 2, offset}, fmt::format(", target off by {}", offset), "-20 % at most");
    row(huge, {2 * mib, 2, offset}, fmt::format(", target off by {}", offset), "-3 % at most");
  }
  measure_call(huge, to, 4096, "2 .. 7 us a call");
  measure_call(huge, to, 65536, "2 .. 7 us a call");
}

// Measures the driver's function for many small copies. The library uses a kernel instead
// (conversions.cpp).
#if CUDART_VERSION >= 13000
void measure_batches() {
  const host_memory huge(buffer_bytes, host_memory::pages::huge);
  const device_memory to(buffer_bytes);
  for (const std::size_t count : {64U, 256U, 1024U}) {
    measure_batch(huge, to, 4096, count, "0.3 .. 1 us a copy");
  }
}

void measure_large_batch() {
  const host_memory huge(buffer_bytes, host_memory::pages::huge);
  const device_memory to(buffer_bytes);
  measure_batch(huge, to, 4096, 4096, "0.3 .. 1 us a copy");
  measure_batch(huge, to, 4096, 50'000, "may crash");
}
#else
void measure_batches() { print_row("batches of copies", "", "need CUDA 13"); }
void measure_large_batch() {}
#endif

}  // namespace ringload::bench
