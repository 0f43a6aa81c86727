// SPDX-License-Identifier: Apache-2.0

// Whole loads into the device, from the file to the last tensor.

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <optional>
#include <ringload/cuda.hpp>
#include <ringload/ringload.hpp>

#include "gpu.hpp"
#include "io/residency.hpp"

namespace ringload::bench {

namespace {

struct load_case {
  device target = cuda_device(0);
  loader_options within = {};
  bool cold = false;
  unsigned runs = 3;
  std::optional<dtype> to = std::nullopt;
  std::string name = {};  // Of what differs from the other cases.
};

double processor_seconds() {
  ::rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const ::timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

bool in_memory(const std::string& path) {
  struct ::statfs about = {};
  return ::statfs(path.c_str(), &about) == 0 && about.f_type == TMPFS_MAGIC;
}

// The share of the files that the page cache has, or what is known instead.
std::string cached(const catalog& what) {
  std::uint64_t pages = 0;
  std::uint64_t there = 0;
  for (const file_info& each : what.files) {
    if (in_memory(each.path)) return "in memory";
    const int fd = ::open(each.path.c_str(), O_RDONLY | O_CLOEXEC);
    const auto counted = fd < 0 ? std::nullopt : cached_pages(fd, 0, each.bytes);
    if (fd >= 0) ::close(fd);
    if (!counted) return "cache unknown";
    pages += counted->pages;
    there += counted->cached;
  }
  return fmt::format("{} % cached", pages == 0 ? 0 : 100 * there / pages);
}

void make_cold(const catalog& what) {
  for (const file_info& each : what.files) {
    const int fd = ::open(each.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    (void)::fsync(fd);
    (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

// Into the page cache: a load of its own would go past it.
void make_warm(const std::string& path) {
  loader into(host());
  load_options options;
  options.route = read_route::buffered;
  (void)into.load_async(path, options, boost::asio::use_future).get();
}

void measure(const std::string& path, const catalog& what, const load_case& how,
             const char* expected) {
  loader from(how.target, how.within);
  load_options options;
  options.dtype = how.to;
  load_stats last;
  std::vector<double> seconds;
  std::vector<double> processor;
  std::string state;
  // The first does not count, but for a cold one, which is like any other.
  for (unsigned run = how.cold ? 1 : 0; run <= how.runs; ++run) {
    if (how.cold) make_cold(what);
    if (run <= 1) state = cached(what);
    const double begin = processor_seconds();
    const model loaded = from.load_async(path, options, boost::asio::use_future).get();
    last = loaded.stats();
    if (run == 0) continue;
    seconds.push_back(last.seconds);
    processor.push_back(processor_seconds() - begin);
    if (how.within.cached_bytes > 0) release(loaded[0]);
  }
  print_row(fmt::format("{} to {}{}, {}{}", std::filesystem::path(path).filename().string(),
                        how.target.name(), how.to ? fmt::format(" as {}", name(*how.to)) : "",
                        state, how.name.empty() ? "" : ", " + how.name) +
                (last.memory_kept ? ", memory kept" : ""),
            expected,
            fmt::format("{} {:.3f} s, processor {:.2f} s, opening {:.3f} s",
                        rate(what.size_bytes(), median(seconds)), median(seconds),
                        median(processor), last.seconds_opening));
}

// What the default number of threads and slots should be.
void measure_threads(const std::string& path, const catalog& what) {
  for (const unsigned slots : {32U, 16U, 64U}) {
    for (const unsigned threads : {8U, 3U, 1U, 2U, 4U, 6U, 12U}) {
      load_case how;
      how.within.slots = slots;
      how.within.copy_threads = threads;
      how.runs = 2;
      how.name = fmt::format("{} slots, {} copy threads", slots, threads);
      measure(path, what, how, threads >= 6 ? "48 .. 52 GB/s" : "9 GB/s a thread");
    }
  }
}

}  // namespace

// What the page cache or tmpfs has: what decides most comes first.
void measure_warm_loads(const std::string& path) {
  const catalog what = read_catalog(path);
  make_warm(path);
  measure(path, what, {}, "48 .. 52 GB/s");
  load_case converted;
  converted.to = dtype::f16;
  measure(path, what, converted, "as without");
  measure_threads(path, what);
  load_case kept;
  kept.within.cached_bytes = 2 * what.size_bytes();
  measure(path, what, kept, "as without");
  load_case to_host;
  to_host.target = host();
  measure(path, what, to_host, "");
}

void measure_few_loads(const std::string& path) {
  const catalog what = read_catalog(path);
  make_warm(path);
  measure(path, what, {}, "as the other file");
}

void measure_cold_loads(const std::string& path) {
  const catalog what = read_catalog(path);
  load_case cold;
  cold.cold = true;
  cold.runs = 2;
  measure(path, what, cold, ">= 0.95 of the disk");
  cold.target = host();
  measure(path, what, cold, ">= 0.95 of the disk");
  make_warm(path);
  measure(path, what, {}, "48 .. 52 GB/s");
}

}  // namespace ringload::bench
