// SPDX-License-Identifier: Apache-2.0

// Maps a checkpoint once and adds up the bytes of all tensors. bench/mapped.py runs this program
// and a program that does the same with the safetensors package, in turn. Prints the seconds until
// the tensors are available, the seconds until the sum, and the sum.

#include <fmt/core.h>

#include <boost/asio/use_future.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <ringload/ringload.hpp>
#include <string>

#include "arguments.hpp"
#include "checksum.hpp"

namespace {

using namespace ringload;
constexpr auto use_future = ringload::as_exception(boost::asio::use_future);
using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point begin) {
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}

void measure(const std::string& path, const load_options& how) {
  const auto begin = clock_type::now();
  loader with;
  std::uint64_t sum = 0;
  double landed = 0;
  if (how.populate) {
    // Each tensor is added up while the pages of the next tensor are read.
    load_operation load = with.start_async(path, how, use_future).get();
    for (bool more = true; more;) {
      const std::optional<tensor> next = load.next_async(use_future).get();
      if (landed == 0) landed = seconds_since(begin);
      more = next.has_value();
      if (more) sum += sum_of_words(next->data(), next->size_bytes());
    }
  } else {
    const model loaded = with.load_async(path, how, use_future).get();
    landed = seconds_since(begin);
    for (const tensor& t : loaded) sum += sum_of_words(t.data(), t.size_bytes());
  }
  fmt::print("{:.6f} {:.6f} {}\n", landed, seconds_since(begin), sum);
}

}  // namespace

int main(int argc, char** argv) {
  ringload::bench::arguments app("Maps a checkpoint and adds up its bytes", "bench_mapped");
  std::string path;
  load_options how;
  how.memory = tensor_memory::mapped;
  app.add_option("FILE", path, "A .safetensors file").required();
  app.add_flag("--populate", how.populate, "As load_options::populate");
  if (const auto code = app.parse(argc, argv)) return *code;
  try {
    measure(path, how);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_mapped: {}\n", e.what());
    return 1;
  }
  return 0;
}
