// SPDX-License-Identifier: Apache-2.0
#pragma once

// Resource usage of a run: CPU time of this process, of the kernel and of other processes, and the
// drive's requests. Read before and after, and subtracted.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/unique_fd.hpp"

namespace ringload::bench {

struct cpu_times {
  double own = 0;     // This process, with its rings' kernel workers.
  double kernel = 0;  // Kernel threads and interrupts of the whole machine.
  double busy = 0;    // All processes.
};

/// CPU time since construction, in seconds. The kernel counts the last two in clock ticks, mostly
/// of 10 ms. The scan of /proc itself takes as long as reading some hundred MB, and is left out.
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

/// Of all processes; empty if `drive` is no block device, as for tmpfs and overlay.
std::optional<drive_counts> drive_now(::dev_t drive);

/// The number of threads of this process whose name begins so: "iou-wrk" for kernel workers.
std::uint32_t threads_named(std::string_view beginning);

/// Counts the reads that this thread, and threads that it starts from now on, hand to kernel
/// workers instead of to the drive.
class punt_counter {
 public:
  punt_counter();
  /// Empty if tracepoints are not permitted.
  std::optional<std::uint64_t> count() const;

 private:
  unique_fd events_;
};

}  // namespace ringload::bench
