// SPDX-License-Identifier: Apache-2.0

// bench_codec FILE [--threads N] [--repeat N]: how fast the codec alone decodes the streams of a
// file, out of memory and into memory that is there already. N threads take one stream after the
// other. Prints the seconds of the best pass, and what they make: what a load could take at best.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "decoding/decoder.hpp"
#include "source/source.hpp"

using namespace ringload;

namespace {

struct stream {
  stored_stream how;
  std::vector<std::byte> stored;
  std::vector<std::byte> decoded;
};

std::vector<stream> streams_of(const char* path) {
  auto opened = open_checkpoint(path, source_options(profile::strict));
  if (!opened) throw std::runtime_error(message_of(opened.error()));
  std::map<std::tuple<std::uint32_t, std::uint64_t>, stream> found;
  for (const auto& form : opened->stored) {
    for (const piece& each : form ? form->pieces : std::vector<piece>()) {
      const stored_stream& one = each.stored;
      if (one.how == codec::raw || one.in_memory) continue;
      found[{one.file, one.offset}].how = one;
    }
  }
  std::vector<stream> out;
  for (auto& [place, one] : found) {
    auto bytes = read_bytes(opened->files[one.how.file], one.how.offset, one.how.bytes);
    if (!bytes) throw std::runtime_error(message_of(bytes.error()));
    one.stored = std::move(*bytes);
    one.decoded.resize(one.how.decoded_bytes);
    out.push_back(std::move(one));
  }
  return out;
}

void decode(stream& one) {
  auto with = make_decoder(one.how.how, 1);
  if (!with) throw std::runtime_error(message_of(with.error()));
  std::span<const std::byte> in = one.stored;
  std::span<std::byte> out = one.decoded;
  for (bool more = true; more;) {
    auto done = (*with)->decode(in, out);
    if (!done) throw std::runtime_error(message_of(done.error()));
    in = in.subspan(done->taken);
    out = out.subspan(done->given);
    more = !done->ended && (done->taken > 0 || done->given > 0);
  }
  if (!out.empty()) throw std::runtime_error("a stream is shorter than it should be");
}

double seconds_of_pass(std::vector<stream>& all, unsigned threads) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) decode(all[i]);
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& each : others) each.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  unsigned threads = 2;
  int repeat = 3;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = unsigned(std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "--repeat") == 0) repeat = std::atoi(argv[i + 1]);
  }
  if (argc < 2 || threads == 0) {
    std::fprintf(stderr, "usage: bench_codec FILE [--threads N] [--repeat N]\n");
    return 2;
  }
  try {
    std::vector<stream> all = streams_of(argv[1]);
    std::uint64_t bytes = 0;
    for (const stream& each : all) bytes += each.decoded.size();
    double best = seconds_of_pass(all, threads);
    for (int i = 1; i < repeat; ++i) best = std::min(best, seconds_of_pass(all, threads));
    std::printf("%.4f s: %.3f GB/s by %u threads, %llu bytes of %zu streams\n", best,
                static_cast<double>(bytes) / best / 1e9, threads,
                static_cast<unsigned long long>(bytes), all.size());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_codec: %s\n", e.what());
    return 1;
  }
  return 0;
}
