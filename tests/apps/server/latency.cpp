// SPDX-License-Identifier: Apache-2.0

// Measures GET /health while nothing is loaded, and while a model is loaded. The times are printed
// but not checked, because they depend on the machine.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <vector>

#include "client.hpp"
#include "process.hpp"
#include "support/safetensors_text.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace ringload::testing;

// Real bytes, because the drive does not read the holes of a sparse file.
void write_model(const std::filesystem::path& path, std::uint64_t bytes) {
  const std::string size = std::to_string(bytes);
  std::ofstream out(path, std::ios::binary);
  out << safetensors_text(header_text({tensor_text("t", "U8", size, 0, bytes)}));
  std::string block(std::size_t{1} << 20, '\0');
  for (std::uint64_t at = 0; at < bytes; at += block.size()) {
    std::ranges::generate(block, [n = at]() mutable { return static_cast<char>(n += 7919); });
    out.write(block.data(),
              static_cast<std::streamsize>(std::min<std::uint64_t>(block.size(), bytes - at)));
  }
}

void print_times(const char* what, std::vector<double> us) {
  std::ranges::sort(us);
  const auto at = [&us](double share) {
    return us[static_cast<std::size_t>(share * static_cast<double>(us.size() - 1))];
  };
  fmt::print("{:<16} {:>7} requests  p50 {:>6.0f} us  p99 {:>6.0f} us  max {:>6.0f} us\n", what,
             us.size(), at(0.5), at(0.99), us.back());
}

void time_health(client& with, std::vector<double>& us) {
  const auto before = std::chrono::steady_clock::now();
  with.get("/health");
  us.push_back(
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - before).count());
}

void measure(std::uint64_t bytes, std::size_t requests, int load_nice) {
  const temporary_folder in;
  write_model(in.path() / "model.safetensors", bytes);
  server_process server({"--root", in.path().string(), "--load-nice", std::to_string(load_nice)});
  if (server.port() == 0) throw std::runtime_error("the server does not start");
  client health(server.port());
  client control(server.port());

  std::vector<double> quiet;
  while (quiet.size() < requests) time_health(health, quiet);
  print_times("nothing loads", quiet);

  // Loads until the same number of requests was made. After every tenth request, checks the load.
  std::vector<double> busy;
  std::uint64_t loads = 0;
  while (busy.size() < requests) {
    control.ask(
        make_request(http::verb::post, "/models", R"({"source":"model.safetensors","id":"m"})"));
    ++loads;
    bool loading = true;
    while (loading) {
      for (int i = 0; i < 10; ++i) time_health(health, busy);
      const auto state = json_of(control.get("/models/m")).at("state").as_string();
      if (state == "failed") throw std::runtime_error("the load fails");
      loading = state != "ready";
    }
  }
  print_times("a model loads", busy);
  fmt::print("{} loads of {} bytes\n", loads, bytes);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Latency of GET /health without and with a load");
  std::uint64_t bytes = std::uint64_t{4} << 30;
  std::size_t requests = 20'000;
  app.add_option("--bytes", bytes, "The size of the model");
  app.add_option("--requests", requests, "At least so many of each kind")
      ->check(CLI::PositiveNumber);
  int load_nice = 10;
  app.add_option("--load-nice", load_nice, "As model-server's");
  CLI11_PARSE(app, argc, argv);
  try {
    measure(bytes, requests, load_nice);
  } catch (const std::exception& failed) {
    fmt::print(stderr, "latency: {}\n", failed.what());
    return 1;
  }
  return 0;
}
