// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reports a cell's measurement, as text and as JSON.

#include <string>

#include "config.hpp"
#include "repeat_runs.hpp"
#include "requests.hpp"

namespace ringload::bench {

/// What fio gave in the same runs; no runs: it was not asked.
struct compared {
  repeated ours;
  repeated fio;

  /// Our median rate, and our median processor time, as a share of fio's.
  double rate_ratio() const { return ours.gb_per_s() / fio.gb_per_s(); }
  double cpu_ratio() const;
};

std::string run_text(const run_request& request, const compared& found);

/// Appends one object, whose top level is the typical run.
void append_run(std::string& to, const run_request& request, const compared& found);

}  // namespace ringload::bench
