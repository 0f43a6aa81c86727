// SPDX-License-Identifier: Apache-2.0

// bench_codec FILE [--threads N] [--repeat N] [--fresh yes|no]: measures how fast the codec alone
// decodes the compressed streams of a file, from memory to memory. With --fresh yes, each pass
// decodes into new memory on huge pages, and its time includes the page faults, as in a load. N
// threads decode one stream after another. As in a load, the decoded bytes stay in place, so zstd
// needs no separate window. Prints the seconds of the best pass, which is a lower bound for a load.

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "catalog/resolve_source.hpp"
#include "formats/codec/decoder.hpp"

using namespace ringload;

namespace {

// Anonymous memory, on huge pages if possible.
class room {
 public:
  explicit room(std::size_t bytes) : bytes_(bytes) {
    at_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) throw std::bad_alloc();
    ::madvise(at_, bytes, MADV_HUGEPAGE);
  }
  room(const room&) = delete;
  room& operator=(const room&) = delete;
  ~room() { ::munmap(at_, bytes_); }

  std::span<std::byte> span(std::size_t offset, std::size_t bytes) const {
    return {static_cast<std::byte*>(at_) + offset, bytes};
  }

 private:
  void* at_;
  std::size_t bytes_;
};

struct stream {
  stored_stream how;
  std::vector<std::byte> stored;
  std::size_t offset = 0;  // Offset of the decoded bytes in the memory for all streams.
};

std::vector<stream> streams_of(const char* path) {
  auto opened = resolve_source(path, source_options(strictness::strict));
  if (!opened) throw std::runtime_error(message_of(opened.error()));
  std::map<std::tuple<std::uint32_t, std::uint64_t>, stream> found;
  for (const auto& form : opened->stored) {
    for (const piece& each : form ? form->pieces : std::vector<piece>()) {
      const stored_stream& one = each.stored;
      if (one.stored_codec == codec::raw || one.in_memory) continue;
      found[{one.file, one.offset}].how = one;
    }
  }
  std::vector<stream> out;
  for (auto& [place, one] : found) {
    auto bytes = read_bytes(opened->files[one.how.file], one.how.offset, one.how.bytes);
    if (!bytes) throw std::runtime_error(message_of(bytes.error()));
    one.stored = std::move(*bytes);
    one.offset = out.empty() ? 0 : out.back().offset + out.back().how.decoded_bytes;
    out.push_back(std::move(one));
  }
  return out;
}

void decode(const stream& one, std::span<std::byte> out) {
  auto with = make_decoder(one.how.stored_codec, 1, decoded_into::one_memory);
  if (!with) throw std::runtime_error(message_of(with.error()));
  std::span<const std::byte> in = one.stored;
  for (bool more = true; more;) {
    auto done = (*with)->decode(in, out);
    if (!done) throw std::runtime_error(message_of(done.error()));
    in = in.subspan(done->taken);
    out = out.subspan(done->produced);
    more = !done->ended && (done->taken > 0 || done->produced > 0);
  }
  if (!out.empty()) throw std::runtime_error("a stream is shorter than it should be");
}

double seconds_of_pass(const std::vector<stream>& all, unsigned threads, const room& into) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      decode(all[i], into.span(all[i].offset, all[i].how.decoded_bytes));
    }
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
  bool fresh = false;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0) threads = unsigned(std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "--repeat") == 0) repeat = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--fresh") == 0) fresh = std::strcmp(argv[i + 1], "yes") == 0;
  }
  if (argc < 2 || threads == 0) {
    std::fprintf(stderr, "usage: bench_codec FILE [--threads N] [--repeat N] [--fresh yes|no]\n");
    return 2;
  }
  try {
    const std::vector<stream> all = streams_of(argv[1]);
    std::uint64_t bytes = 0;
    for (const stream& each : all) bytes += each.how.decoded_bytes;
    auto into = std::make_unique<room>(bytes);
    if (!fresh) (void)seconds_of_pass(all, threads, *into);
    double best = 0;
    for (int i = 0; i < repeat; ++i) {
      if (fresh) into = std::make_unique<room>(bytes);
      const double seconds = seconds_of_pass(all, threads, *into);
      best = i == 0 ? seconds : std::min(best, seconds);
    }
    std::printf("%.4f s: %.3f GB/s by %u threads, %llu bytes of %zu streams\n", best,
                static_cast<double>(bytes) / best / 1e9, threads,
                static_cast<unsigned long long>(bytes), all.size());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_codec: %s\n", e.what());
    return 1;
  }
  return 0;
}
