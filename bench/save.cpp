// SPDX-License-Identifier: Apache-2.0

// Saves host memory for bench/save.py. Each line on standard input requests one save, and the
// result is a line on standard output. The memory is allocated and filled once.

#include <fmt/core.h>

#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"
#include "base/mapping.hpp"

namespace {

using namespace ringload;

struct settings {
  std::string path;
  std::uint64_t mib = 64;
  std::uint64_t tensors = 16;
  std::uint32_t alignment = 4096;
  std::uint64_t offset = 0;
  std::uint64_t slot_kib = 4096;
  std::uint64_t flight_mib = 0;
  bool threads = false;
  bool once = false;
};

std::uint64_t next(std::uint64_t& state) noexcept {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state ^ (state >> 29U);
}

mapping filled_memory(std::uint64_t bytes) {
  auto made = mapping::make(bytes, page_kind::transparent);
  if (!made || populate(made->span())) throw std::runtime_error("no memory for the tensors");
  std::uint64_t state = 1;
  auto* const words = reinterpret_cast<std::uint64_t*>(made->data());
  for (std::uint64_t i = 0; i < bytes / 8; ++i) words[i] = next(state);
  return std::move(*made);
}

void save_once(loader& with, const settings& s, const std::vector<tensor_ref>& tensors) {
  save_options how;
  how.alignment = s.alignment;
  std::filesystem::remove(s.path);
  const save_result done =
      with.save_async(s.path, tensors, how, ringload::as_exception(boost::asio::use_future)).get();
  fmt::print(R"({{"seconds": {:.4f}, "bytes": {}, "direct": {}, "unstaged": {}, "writes": {}}})"
             "\n",
             done.seconds, done.bytes, done.bytes_direct, done.bytes_unstaged, done.writes);
  std::fflush(stdout);
}

void run(const settings& s) {
  const std::uint64_t each = (s.mib << 20) / s.tensors / 4096 * 4096;
  const mapping memory = filled_memory(each * s.tensors + s.offset);
  std::vector<tensor_ref> tensors;
  for (std::uint64_t t = 0; t < s.tensors; ++t) {
    tensors.emplace_back("t" + std::to_string(t), memory.data() + s.offset + t * each, dtype::bf16,
                         std::vector<std::uint64_t>{each / 4096, 2048});
  }
  loader_options within;
  within.slot_bytes = s.slot_kib << 10;
  within.bytes_in_flight = s.flight_mib << 20;
  if (s.threads) within.engine = read_engine::threads;
  loader with(host(), within);
  if (s.once) return save_once(with, s, tensors);
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) save_once(with, s, tensors);
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  ringload::bench::arguments app("Saves host memory, once for each line of standard input");
  app.add_option("path", s.path, "Ends with .safetensors; is removed before each save").required();
  app.add_option("--mib", s.mib, "All tensors together");
  app.add_option("--tensors", s.tensors).positive();
  app.add_option("--alignment", s.alignment, "saving::alignment");
  app.add_option("--offset", s.offset, "Of the first tensor's address within a page");
  app.add_option("--slot-kib", s.slot_kib, "loader_options::slot_bytes");
  app.add_option("--flight-mib", s.flight_mib, "loader_options::bytes_in_flight; 0: tuned");
  app.add_flag("--threads", s.threads, "With threads, not io_uring");
  app.add_flag("--once", s.once, "One save, without standard input");
  if (const auto code = app.parse(argc, argv)) return *code;
  try {
    run(s);
    std::filesystem::remove(s.path);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_save: {}\n", e.what());
    return 1;
  }
}
