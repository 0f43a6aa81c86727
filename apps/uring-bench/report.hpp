// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reports the measurement of a cell, as text and as JSON.

#include <string>

#include "config.hpp"
#include "repeat_runs.hpp"
#include "requests.hpp"

namespace ringload::bench {

/// The results of ringload and of fio in the same runs. `fio` is empty if fio was not used.
struct compared {
  repeated ours;
  repeated fio;

  /// The ratios of the median rates and of the median processor times, ringload to fio.
  double rate_ratio() const { return ours.gb_per_s() / fio.gb_per_s(); }
  double cpu_ratio() const;
};

std::string run_text(const run_request& request, const compared& comparison);

/// Appends one object. The rate, the IOPS and the processor times are medians of all runs. The
/// other figures at the top level are the figures of the typical run. run_text() reports them too.
void append_run(std::string& text, const run_request& request, const compared& comparison);

}  // namespace ringload::bench
