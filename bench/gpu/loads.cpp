// SPDX-License-Identifier: Apache-2.0

// Whole loads into the device, from the file to the last tensor: cold, warm, converted, into the
// host's memory beside it, and then with several limits.

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <optional>
#include <ringload/cuda.hpp>
#include <ringload/ringload.hpp>

#include "gpu.hpp"

namespace ringload::bench {

namespace {

constexpr unsigned runs = 3;

struct setting {
  std::uint32_t slots;
  std::uint64_t slot_bytes;
  std::uint64_t bytes_in_flight;
};

constexpr setting settings[] = {
    {16, 4 * mib, 0},  // What limits begin with.
    {16, 2 * mib, 16 * mib}, {32, 2 * mib, 32 * mib},  {16, 4 * mib, 32 * mib},
    {16, 8 * mib, 64 * mib}, {128, 1 * mib, 64 * mib},
};

void make_cold(const catalog& what) {
  for (const file_info& each : what.files) {
    const int fd = ::open(each.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    (void)::fsync(fd);
    (void)::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

struct load_case {
  device target;
  setting with;
  bool warm;
  std::optional<dtype> to = std::nullopt;
  bool swaps = false;  // Each load takes the memory of the one before.
};

void measure(const std::string& path, const catalog& what, const load_case& how) {
  limits within;
  within.slots = how.with.slots;
  within.slot_bytes = how.with.slot_bytes;
  within.bytes_in_flight = how.with.bytes_in_flight;
  if (how.swaps) within.kept_bytes = 2 * what.bytes();
  loader from(how.target, within);
  load_options options;
  options.dtype = how.to;
  load_stats last;
  std::vector<double> seconds;
  for (unsigned run = 0; run <= runs; ++run) {
    if (!how.warm) make_cold(what);
    const model loaded = from.load_async(path, options, boost::asio::use_future).get();
    last = loaded.stats();
    if (run > 0) seconds.push_back(last.seconds);
  }
  const std::string file = std::filesystem::path(path).filename().string();
  print_row(fmt::format("{} to {}{}, {}, {} slots of {} MiB, {} in flight", file, how.target.name(),
                        how.to ? fmt::format(" as {}", name(*how.to)) : "",
                        how.warm ? "warm" : "cold", how.with.slots, how.with.slot_bytes / mib,
                        how.with.bytes_in_flight > 0
                            ? fmt::format("{} MiB", how.with.bytes_in_flight / mib)
                            : "as found") +
                (last.memory_kept ? ", memory kept" : ""),
            how.warm ? ">= 0.85 of the copies" : ">= 0.95 of the disk",
            fmt::format("{} {:.3f} s", rate(what.bytes(), median(seconds)), median(seconds)));
  print_row("  opening, waiting for the device (summed over slots)", "",
            fmt::format("{:.3f} s, {:.3f} s", last.seconds_opening, last.seconds_device_wait));
}

}  // namespace

// What decides most comes first: whoever has too little time loses the end.
void measure_loads(std::span<const std::string> paths) {
  for (const std::string& path : paths) {
    const catalog what = read_catalog(path);
    for (const bool warm : {false, true}) {
      measure(path, what, {cuda_device(0), settings[0], warm});
      measure(path, what, {cuda_device(0), settings[0], warm, dtype::f16});
      measure(path, what, {cuda_device(0), settings[0], warm, std::nullopt, true});
      measure(path, what, {host(), settings[0], warm});
    }
  }
  for (const std::string& path : paths) {
    const catalog what = read_catalog(path);
    for (const bool warm : {false, true}) {
      for (const setting& each : std::span(settings).subspan(1)) {
        measure(path, what, {cuda_device(0), each, warm});
      }
    }
  }
}

}  // namespace ringload::bench
