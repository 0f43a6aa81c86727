// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a run cost, and what else went on: processor time of ours, of the kernel and of others, and
// what the drive was asked for. Read before and after, and subtracted.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/unique_fd.hpp"

namespace ringload::bench {

struct cpu_times {
  double own = 0;     // Of this process, with the kernel's workers for its rings.
  double kernel = 0;  // Of kernel threads and of interrupts, of the whole machine.
  double busy = 0;    // Of everybody.
};

/// Processor time from its construction on, in seconds. The kernel counts the last two in steps of
/// a clock tick, mostly 10 ms. Looking through /proc takes as long as reading some hundred MB, so
/// that is not counted as ours.
class cpu_account {
 public:
  cpu_account();
  cpu_times spent() const;

 private:
  cpu_times before_;
};

struct drive_counts {
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;
};

/// Of everybody; empty where `drive` is no block device, as for tmpfs and overlay.
std::optional<drive_counts> drive_now(::dev_t drive);

/// Threads of this process whose name begins so, as "iou-wrk" for the kernel's workers.
std::uint32_t threads_named(std::string_view beginning);

/// Counts the reads that this thread, and threads that it starts from now on, hand to kernel
/// workers instead of to the drive.
class punt_counter {
 public:
  punt_counter();
  /// Empty where tracepoints may not be used.
  std::optional<std::uint64_t> count() const;

 private:
  unique_fd events_;
};

}  // namespace ringload::bench
