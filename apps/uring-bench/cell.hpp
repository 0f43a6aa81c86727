// SPDX-License-Identifier: Apache-2.0
#pragma once

// One cell: everything that decides how fast bytes can be read, and what came of reading them so.

#include <cstdint>
#include <optional>
#include <ringload/limits.hpp>
#include <string>
#include <string_view>

#include "core/mapping.hpp"
#include "latencies.hpp"

namespace ringload::bench {

enum class pattern : std::uint8_t { sequential, random };
enum class route : std::uint8_t { direct, buffered };
enum class method : std::uint8_t { ring, threads, mmap };

// Where the bytes go. The same reads differ by a factor of up to 4 between these.
enum class destination : std::uint8_t {
  slots,      // A few small buffers, used again and again, as fio does.
  fresh,      // Memory of the file's size, taken and made present while the clock runs.
  populated,  // Memory of the file's size, present before the clock starts.
};

// What the page cache holds of the target before a run. Established, and then verified.
enum class cache_state : std::uint8_t {
  cold,
  warm,
  as_is,  // Nothing is done, and nothing claimed.
};

struct cell {
  method with = method::ring;
  pattern order = pattern::sequential;
  route by = route::direct;
  destination into = destination::slots;
  page_kind pages = page_kind::transparent;
  cache_state state = cache_state::cold;

  std::uint64_t block_bytes = std::uint64_t{2} << 20;
  /// Reads at once: of each ring; or, where threads read, the threads.
  std::uint32_t depth = 8;
  std::uint32_t rings = 1;    // Of each thread.
  std::uint32_t threads = 1;  // That have rings.

  bool registered_buffers = false;
  bool registered_files = false;
  bool sqpoll = false;
  bool iopoll = false;

  double seconds = 5;
  /// Reading before the clock starts, which then does so with all reads under way.
  double ramp_seconds = 0;
  /// Ends earlier after so many bytes; 0: no bound.
  std::uint64_t bytes_max = 0;
  std::uint64_t seed = 0;

  /// What is read through the page cache is cold for one pass.
  bool cold_once() const noexcept { return by == route::buffered && state == cache_state::cold; }
  std::uint64_t reads_at_once() const noexcept {
    return with == method::ring ? std::uint64_t{depth} * rings * threads : depth;
  }
  std::uint64_t bytes_in_flight() const noexcept { return reads_at_once() * block_bytes; }
};

/// The reads that a loader with these limits begins with.
cell cell_of(const limits& within);

struct measurement {
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;
  double seconds = 0;
  latencies latency;

  double cpu_seconds = 0;         // Ours, with the kernel's workers for our rings.
  double cpu_kernel_seconds = 0;  // Of kernel threads and interrupts meanwhile, of the machine.
  double foreign_processors = 0;  // That others kept busy meanwhile.
  double longest_submit_seconds = 0;
  std::optional<std::uint64_t> punts;  // Reads that the kernel handed to a worker; empty: not told.
  std::uint32_t kernel_workers = 0;    // Of ours that were there at the end.
  std::uint64_t short_reads = 0;
  std::uint64_t resubmits = 0;  // Of what was missing, and after EAGAIN and EINTR.

  /// The mean size of the requests that the drive saw, of everybody; empty: not told.
  std::optional<double> request_bytes;
  std::optional<double> cached_share_before;
  std::optional<double> cached_share_after;
  page_kind pages = page_kind::small;  // What the memory really was on.
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

/// As on the command line: "seq", "direct", "ring", "slots", "cold".
std::string_view name(pattern order) noexcept;
std::string_view name(route by) noexcept;
std::string_view name(method with) noexcept;
std::string_view name(destination into) noexcept;
std::string_view name(cache_state state) noexcept;

/// "ring seq direct 2 MiB x 8 (16 MiB in flight) into slots on thp pages, cold".
std::string describe(const cell& what);

}  // namespace ringload::bench
