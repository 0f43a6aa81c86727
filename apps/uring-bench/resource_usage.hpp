// SPDX-License-Identifier: Apache-2.0
#pragma once

// The resource usage of a run: processor time of this process, of the kernel and of other
// processes, and the requests of the drive. The values are read before and after the run, and
// subtracted.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/unique_fd.hpp"

namespace ringload::bench {

struct cpu_times {
  double own = 0;     // This process, including kernel workers of its rings.
  double kernel = 0;  // Kernel threads and interrupts of the machine.
  double busy = 0;    // All processes.
};

/// Processor time since construction, in seconds. The kernel counts `kernel` and `busy` in clock
/// ticks of usually 10 ms. The scan of /proc takes as long as reading some hundred MB, and is not
/// counted.
class cpu_account {
 public:
  cpu_account();
  cpu_times spent() const;

 private:
  cpu_times before_;
};

/// Returns the number of processors that other processes used, at most the number of processors of
/// the machine. Returns 0 for an interval shorter than 5 clock ticks, because the error of a tick
/// would be too large.
double foreign_processors(const cpu_times& spent, double seconds);

struct drive_counts {
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;
};

/// Returns the reads of all processes since boot. Returns an empty optional if `drive` is not a
/// block device, as for tmpfs and overlay.
std::optional<drive_counts> drive_now(::dev_t drive);

/// Returns the number of threads of this process whose name has this beginning: "iou-wrk" for
/// kernel workers. The kernel workers of a ring end with the thread that created the ring.
std::uint32_t threads_named(std::string_view beginning);

/// Counts the reads that this thread, and threads that it starts later, pass to kernel workers
/// instead of to the drive.
class punt_counter {
 public:
  punt_counter();
  /// Returns an empty optional if tracepoints are not permitted.
  std::optional<std::uint64_t> count() const;

 private:
  unique_fd events_;
};

}  // namespace ringload::bench
