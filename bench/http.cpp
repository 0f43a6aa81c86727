// SPDX-License-Identifier: Apache-2.0

// bench_http URL: loads from a web server beside libcurl. Both have as many connections, keep them
// between the runs, and write into memory that is kept between the runs, so that no page is zeroed.
// A run of libcurl requests one range for each connection, and copies the bytes to their place in
// one buffer. Runs in turns; the first run of each is not counted.

#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ringload/remote.hpp>
#include <ringload/ringload.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "arguments.hpp"

namespace {

using namespace ringload;
using clock_type = std::chrono::steady_clock;

void require(bool is_right, const char* message) {
  if (!is_right) throw std::runtime_error(message);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// The part of the buffer that one connection fills.
struct range {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
  std::size_t received = 0;
};

std::size_t write_to_range(char* bytes, std::size_t, std::size_t count, void* user) {
  range& target = *static_cast<range*>(user);
  if (count > target.bytes - target.received) return 0;
  std::memcpy(target.memory + target.received, bytes, count);
  target.received += count;
  return count;
}

class curl_peer {
 public:
  curl_peer(const std::string& url, std::size_t bytes, std::uint32_t connections, long buffer_bytes)
      : memory_(bytes), multi_(curl_multi_init()) {
    require(multi_ != nullptr, "libcurl has no memory");
    curl_multi_setopt(multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, static_cast<long>(connections));
    const std::size_t part = (bytes + connections - 1) / connections;
    for (std::size_t begin = 0; begin < bytes; begin += part) {
      ranges_.push_back({memory_.data() + begin, std::min(part, bytes - begin), 0});
    }
    for (range& each : ranges_) {
      const auto begin = static_cast<std::size_t>(each.memory - memory_.data());
      CURL* const easy = curl_easy_init();
      require(easy != nullptr, "libcurl has no memory");
      easies_.push_back(easy);
      const std::string text = fmt::format("{}-{}", begin, begin + each.bytes - 1);
      curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
      curl_easy_setopt(easy, CURLOPT_RANGE, text.c_str());
      curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, buffer_bytes);
      curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, write_to_range);
      curl_easy_setopt(easy, CURLOPT_WRITEDATA, &each);
    }
  }
  curl_peer(const curl_peer&) = delete;
  curl_peer& operator=(const curl_peer&) = delete;
  ~curl_peer() {
    for (CURL* const easy : easies_) curl_easy_cleanup(easy);
    curl_multi_cleanup(multi_);
  }

  void run() {
    for (range& each : ranges_) each.received = 0;
    for (CURL* const easy : easies_) curl_multi_add_handle(multi_, easy);
    for (int running = 1; running > 0;) {
      require(curl_multi_perform(multi_, &running) == CURLM_OK, "libcurl failed");
      constexpr int wait_ms = 1000;
      if (running > 0) curl_multi_poll(multi_, nullptr, 0, wait_ms, nullptr);
    }
    for (CURL* const easy : easies_) curl_multi_remove_handle(multi_, easy);
    for (const range& each : ranges_)
      require(each.received == each.bytes, "libcurl: bytes missing");
  }

 private:
  std::vector<std::byte> memory_;
  std::vector<range> ranges_;  // Must not be resized: libcurl has their addresses.
  std::vector<CURL*> easies_;
  CURLM* multi_;
};

struct bench_options {
  std::string url;
  unsigned repeat = 15;
  unsigned connections = 16;
  unsigned threads = 0;  // 0: the default.
  std::uint64_t chunk_bytes = 0;
  unsigned curl_buffer_kib = 512;  // The most that libcurl accepts.
};

template <class Run>
double seconds_of(Run run) {
  const auto begin = clock_type::now();
  run();
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}

void compare(const bench_options& options) {
  remote_options network;
  network.connections = options.connections;
  if (options.threads > 0) network.threads = options.threads;
  if (options.chunk_bytes > 0) network.chunk_bytes = options.chunk_bytes;
  loader_options settings;
  settings.cached_bytes = ~std::uint64_t{0};
  loader peer(host(), settings, {remote(network)});
  const auto load = [&] {
    return peer.load_async(options.url, as_exception(boost::asio::use_future)).get();
  };
  const std::uint64_t bytes = load().catalog().size_bytes();
  curl_peer curl(options.url, bytes, options.connections,
                 static_cast<long>(options.curl_buffer_kib) << 10);
  curl.run();
  std::vector<double> of_curl;
  std::vector<double> of_ringload;
  for (unsigned i = 0; i < options.repeat; ++i) {
    of_curl.push_back(seconds_of([&] { curl.run(); }));
    of_ringload.push_back(seconds_of([&] { load(); }));
  }
  const auto print = [&](const char* name, const std::vector<double>& times) {
    fmt::print("| {:<8} | {:.3f} | {:.3f} .. {:.3f} | {:.2f} |\n", name, median(times),
               *std::ranges::min_element(times), *std::ranges::max_element(times),
               static_cast<double>(bytes) / median(times) * 1e-9);
  };
  fmt::print("| {:<8} | {} | {} | {} |\n|---|---|---|---|\n", "", "median, s", "range, s", "GB/s");
  print("libcurl", of_curl);
  print("ringload", of_ringload);
  fmt::print("\nlibcurl's time / ringload's: {:.2f}\n", median(of_curl) / median(of_ringload));
}

}  // namespace

int main(int argc, char** argv) {
  bench::arguments app("Loads from a web server beside libcurl, into memory that is kept",
                       "bench_http");
  bench_options options;
  app.add_option("URL", options.url, "A .safetensors file on a web server").required();
  app.add_option("--repeat", options.repeat, "Runs of each, in turns").between(1, 1000);
  app.add_option("--connections", options.connections, "Of each").between(1, 1024);
  app.add_option("--threads", options.threads, "As remote_options::threads");
  app.add_option("--chunk-bytes", options.chunk_bytes, "As remote_options::chunk_bytes");
  app.add_option("--curl-buffer-kib", options.curl_buffer_kib, "Of each connection of libcurl")
      .between(1, 512);
  if (const auto code = app.parse(argc, argv)) return *code;
  try {
    compare(options);
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_http: {}\n", e.what());
    return 1;
  }
  return 0;
}
