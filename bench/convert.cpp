// SPDX-License-Identifier: Apache-2.0

// bench_convert [--mib N]: measures how fast one thread of the host converts N MiB of elements from
// memory to memory, for each pair of types. Measures a plain copy of N MiB too.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include "base/numeric/convert.hpp"

namespace {

using namespace ringload;

constexpr unsigned runs = 7;
constexpr dtype sources[] = {dtype::f32, dtype::f16, dtype::bf16, dtype::f8_e4m3fn, dtype::f8_e5m2};
constexpr dtype targets[] = {dtype::f32, dtype::f16, dtype::bf16};

// Some of the pairs that only fills (loads into caller memory) convert.
constexpr dtype of_fills[][2] = {
    {dtype::f32, dtype::f8_e4m3fn}, {dtype::bf16, dtype::f8_e5m2}, {dtype::f64, dtype::f32},
    {dtype::f64, dtype::bf16},      {dtype::f32, dtype::f64},      {dtype::i64, dtype::i32},
    {dtype::i32, dtype::i64},       {dtype::i64, dtype::f32},      {dtype::u8, dtype::f32},
    {dtype::f32, dtype::u8},        {dtype::boolean, dtype::f32},  {dtype::u64, dtype::i64}};

// Returns the median of several runs, after one warm-up run.
template <class Work>
double seconds_of(Work work) {
  work();
  std::vector<double> all;
  for (unsigned i = 0; i < runs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    all.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(all.begin(), all.end());
  return all[runs / 2];
}

void print(const std::string& what, std::size_t in, std::size_t out, double seconds) {
  std::cout << std::left << std::setw(20) << what << std::right << std::fixed
            << std::setprecision(2) << std::setw(8) << static_cast<double>(in) * 1e-9 / seconds
            << std::setw(10) << static_cast<double>(out) * 1e-9 / seconds << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t bytes = std::size_t{32} << 20;
  if (argc == 3 && std::string(argv[1]) == "--mib") {
    bytes = std::strtoul(argv[2], nullptr, 10) << 20;
  } else if (argc != 1) {
    std::cerr << "usage: bench_convert [--mib N]\n";
    return 2;
  }
  std::vector<std::byte> from(bytes);
  std::vector<std::byte> to(bytes * 4);
  for (std::size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 2654435761U >> 13U);

  std::cout << "                    GB/s read   written\n";
  print("memcpy", bytes, bytes, seconds_of([&] { std::memcpy(to.data(), from.data(), bytes); }));
  const auto measure = [&](dtype source, dtype target) {
    const conversion how = {*element_kind_of(source), *element_kind_of(target)};
    const std::size_t elements = bytes / how.from_bytes();
    const double seconds = seconds_of([&] { convert(from.data(), to.data(), elements, how); });
    print(std::string(name(source)) + " to " + std::string(name(target)), bytes,
          elements * how.to_bytes(), seconds);
  };
  for (const dtype source : sources) {
    for (const dtype target : targets) {
      if (convertible(source, target)) measure(source, target);
    }
  }
  for (const auto& [source, target] : of_fills) measure(source, target);
}
