// SPDX-License-Identifier: Apache-2.0

// Measures whole loads into the device, from the file to the last tensor.

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <future>
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
  std::string name = {};  // The difference from the other cases.
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

// Returns the share of the files that is in the page cache, or another known state.
std::string cached(const catalog& what) {
  std::uint64_t pages = 0;
  std::uint64_t there = 0;
  for (const file_info& each : what.files) {
    if (in_memory(each.path)) return "in memory";
    const int fd = ::open(each.path.c_str(), O_RDONLY | O_CLOEXEC);
    const auto counted = fd < 0 ? std::nullopt : count_pages(fd, 0, each.bytes);
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

// Reads the files into the page cache through 1 MiB of memory. A load into the host would need as
// much memory as the files, and a machine whose memory grows on use may not report this memory as
// available.
void make_warm(const catalog& what) {
  std::vector<std::byte> room(std::size_t{1} << 20);
  for (const file_info& each : what.files) {
    if (in_memory(each.path)) continue;
    const int fd = ::open(each.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    while (::read(fd, room.data(), room.size()) > 0) {
    }
    ::close(fd);
  }
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
  // The first run is a warm-up, except for cold loads.
  for (unsigned run = how.cold ? 1 : 0; run <= how.runs; ++run) {
    if (how.cold) make_cold(what);
    if (run <= 1) state = cached(what);
    const double begin = processor_seconds();
    const model loaded =
        from.load_async(path, options, ringload::as_exception(boost::asio::use_future)).get();
    last = loaded.stats();
    if (run == 0) continue;
    seconds.push_back(last.seconds);
    processor.push_back(processor_seconds() - begin);
    if (how.within.cached_bytes > 0) release(loaded[0]);
  }
  print_row(
      fmt::format("{} to {}{}, {}{}", std::filesystem::path(path).filename().string(),
                  how.target.name(), how.to ? fmt::format(" as {}", name(*how.to)) : "", state,
                  how.name.empty() ? "" : ", " + how.name) +
          (last.memory_kept ? ", memory kept" : ""),
      expected,
      fmt::format("{} {:.3f} s, processor {:.2f} s, opening {:.3f} s{}",
                  rate(what.size_bytes(), median(seconds)), median(seconds), median(processor),
                  last.seconds_opening, last.bytes_gpu_direct > 0 ? ", past the host" : ""));
}

// Compares sizes of slots. Slots that stay in the last-level cache of the processor need not be
// read back from memory.
void measure_slot_bytes(const std::string& path, const catalog& what) {
  struct ring_size {
    unsigned slots;
    unsigned mebibytes;
  };
  for (const ring_size& ring :
       {ring_size{32, 2}, ring_size{64, 2}, ring_size{32, 4}, ring_size{16, 8}}) {
    load_case how;
    how.within.slots = ring.slots;
    how.within.slot_bytes = ring.mebibytes * mib;
    how.within.copy_threads = 12;
    how.runs = 2;
    how.name = fmt::format("{} slots of {} MiB, 12 copy threads", ring.slots, ring.mebibytes);
    measure(path, what, how, "48 .. 52 GB/s");
  }
}

// Measures what a user of the tool sees: the loader is created for one load.
void measure_first_load(const std::string& path, const catalog& what) {
  const double begin = now();
  loader from(cuda_device(0));
  const double made = now();
  const model loaded = from.load_async(path, boost::asio::use_future).get();
  const double seconds = now() - begin;
  print_row("a loader made, and its first load", "0.2 .. 0.5 s more",
            fmt::format("{} {:.3f} s, of it {:.3f} s for the loader, {:.3f} s of the load waiting "
                        "for memory",
                        rate(what.size_bytes(), seconds), seconds, made - begin,
                        loaded.stats().seconds_memory_wait));
}

// Measures repeated copies of a model in host memory to the device: through slots, and from pinned
// memory.
void measure_pinned_model(const std::string& path) {
  loader on_host(host());
  const model source = on_host.load_async(path, boost::asio::use_future).get();
  loader to(cuda_device(0));
  const auto copy_all = [&] {
    std::vector<std::future<tensor>> copies;
    const double begin = now();
    for (const tensor& each : source) {
      copies.push_back(to.copy_async(each, cuda_device(0), boost::asio::use_future));
    }
    for (auto& each : copies) (void)each.get();
    return now() - begin;
  };
  const auto measure_copies = [&](const char* name, const char* expected) {
    (void)copy_all();
    const double begin = processor_seconds();
    const double seconds = copy_all();
    print_row(
        name, expected,
        fmt::format("{} {:.3f} s, processor {:.2f} s", rate(source.catalog().size_bytes(), seconds),
                    seconds, processor_seconds() - begin));
  };
  measure_copies("a model of the host to the device, through slots", "48 .. 52 GB/s");
  const double begin = now();
  const std::uint64_t pinned = pin(source);
  const double seconds = now() - begin;
  print_row("its memory pinned", "34 .. 100 ms per GB",
            fmt::format("{} {:.3f} s", rate(pinned, seconds), seconds));
  measure_copies("the same from pinned memory", "53 .. 55 GB/s, no processor time");
}

// Measures GPUDirect Storage, or reports why it is not available.
void measure_direct_storage(const std::string& path, const catalog& what) {
  load_case how;
  how.within.gpu_direct = gpu_direct::automatic;
  how.cold = true;
  how.runs = 2;
  const loader tried(cuda_device(0), how.within);
  const std::string reason = tried.stats().gpu_direct_reason;
  if (!reason.empty()) {
    print_row("GPUDirect Storage", "needs a machine that can", reason);
    return;
  }
  how.name = "GPUDirect Storage";
  measure(path, what, how, ">= 0.95 of the disk");
}

// Compares numbers of threads and slots, to choose the defaults.
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

// Measures loads from the page cache or tmpfs. The most important cases are first.
void measure_warm_loads(const std::string& path) {
  const catalog what = read_catalog(path);
  make_warm(what);
  measure_first_load(path, what);
  measure(path, what, {}, "48 .. 52 GB/s");
  load_case converted;
  converted.to = dtype::f16;
  measure(path, what, converted, "as without");
  measure_slot_bytes(path, what);
  measure_threads(path, what);
  load_case kept;
  kept.within.cached_bytes = 2 * what.size_bytes();
  measure(path, what, kept, "as without");
  measure_pinned_model(path);
  load_case to_host;
  to_host.target = host();
  measure(path, what, to_host, "");
}

void measure_few_loads(const std::string& path) {
  const catalog what = read_catalog(path);
  make_warm(what);
  measure(path, what, {}, "as the other file");
}

void measure_cold_loads(const std::string& path) {
  const catalog what = read_catalog(path);
  load_case cold;
  cold.cold = true;
  cold.runs = 2;
  measure(path, what, cold, ">= 0.95 of the disk");
  measure_direct_storage(path, what);
  cold.target = host();
  measure(path, what, cold, ">= 0.95 of the disk");
  make_warm(what);
  measure(path, what, {}, "48 .. 52 GB/s");
}

}  // namespace ringload::bench
