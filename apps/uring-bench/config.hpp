// SPDX-License-Identifier: Apache-2.0
#pragma once

// A cell is one configuration of a benchmark: everything that affects the rate of reads. This file
// also declares the measurement of a cell.

#include <cstdint>
#include <optional>
#include <ringload/options.hpp>
#include <string>
#include <string_view>

#include "base/mapping.hpp"
#include "latencies.hpp"

namespace ringload::bench {

enum class pattern : std::uint8_t { sequential, random };
enum class route : std::uint8_t { direct, buffered };
enum class method : std::uint8_t { ring, threads, mmap };

// The destination of the reads, which changes the rate by a factor of up to 4.
enum class destination : std::uint8_t {
  slots,      // A few small buffers that are reused, as fio does.
  fresh,      // Memory of the file's size, allocated and populated while the clock runs.
  populated,  // Memory of the file's size, populated before the clock starts.
};

// The state of the page cache before a run. The state is set up and then verified.
enum class cache_state : std::uint8_t {
  cold,
  warm,
  as_is,  // Not changed and not verified.
};

struct cell {
  method with = method::ring;
  pattern order = pattern::sequential;
  route by = route::direct;
  destination into = destination::slots;
  page_kind pages = page_kind::transparent;
  cache_state state = cache_state::cold;

  std::uint64_t block_bytes = std::uint64_t{2} << 20;
  /// The queue depth of each ring, or the number of threads if no rings are used.
  std::uint32_t depth = 8;
  std::uint32_t rings = 1;    // Number of rings of each thread.
  std::uint32_t threads = 1;  // Number of threads that have rings.

  bool registered_buffers = false;
  bool registered_files = false;
  bool sqpoll = false;
  bool iopoll = false;

  double seconds = 5;
  /// The warm-up before the clock starts, so that the queue is full at the start.
  double ramp_seconds = 0;
  /// The run ends after this number of bytes or after `seconds`. 0 means no limit of bytes.
  std::uint64_t bytes_max = 0;
  std::uint64_t seed = 0;

  /// Returns true if the bytes are cold for one pass only, because reads fill the page cache.
  bool cold_once() const noexcept { return by == route::buffered && state == cache_state::cold; }
  std::uint64_t reads_at_once() const noexcept {
    return with == method::ring ? std::uint64_t{depth} * rings * threads : depth;
  }
  std::uint64_t bytes_in_flight() const noexcept { return reads_at_once() * block_bytes; }
};

/// Returns a cell with the same reads as a loader with these options at its start.
cell cell_of(const loader_options& options);

struct measurement {
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;
  double seconds = 0;
  latencies latency;

  double cpu_seconds = 0;         // This process, including kernel workers of its rings.
  double cpu_kernel_seconds = 0;  // Kernel threads and interrupts of the machine.
  /// Number of processors that other processes used. 0 for an interval of a few clock ticks.
  double foreign_processors = 0;
  double longest_submit_seconds = 0;
  // Reads that were passed to kernel workers. Empty if unknown.
  std::optional<std::uint64_t> punts;
  std::uint32_t kernel_workers = 0;  // Kernel workers of this process at the end.
  std::uint64_t short_reads = 0;
  std::uint64_t resubmits = 0;  // Reads repeated after a short read, EAGAIN or EINTR.

  /// The mean request size at the drive, over all processes. Empty if unknown.
  std::optional<double> request_bytes;
  std::optional<double> cached_share_before;
  std::optional<double> cached_share_after;
  page_kind pages = page_kind::small;  // The page kind that the memory had.
  std::string ring_flags;

  double gb_per_s() const noexcept {
    return seconds > 0 ? static_cast<double>(bytes) / seconds * 1e-9 : 0;
  }
  double iops() const noexcept { return seconds > 0 ? static_cast<double>(reads) / seconds : 0; }
  double gib() const noexcept { return static_cast<double>(bytes) / (1 << 30); }
  double cpu_s_per_gib() const noexcept { return bytes > 0 ? cpu_seconds / gib() : 0; }
  double cpu_s_per_gib_with_kernel() const noexcept {
    return bytes > 0 ? (cpu_seconds + cpu_kernel_seconds) / gib() : 0;
  }
};

/// Returns the value of the command line: "seq", "direct", "ring", "slots", "cold".
std::string_view name(pattern order) noexcept;
std::string_view name(route by) noexcept;
std::string_view name(method with) noexcept;
std::string_view name(destination into) noexcept;
std::string_view name(cache_state state) noexcept;

/// Returns a text such as "ring seq direct 2 MiB x 8 (16 MiB in flight) into slots on thp pages,
/// cold".
std::string describe(const cell& config);

}  // namespace ringload::bench
