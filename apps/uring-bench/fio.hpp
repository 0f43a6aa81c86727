// SPDX-License-Identifier: Apache-2.0
#pragma once

// Measures the same cell with fio, as an independent reference.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config.hpp"
#include "target.hpp"

namespace ringload::bench {

/// Returns the version, "fio-3.33", or an empty string if fio is not installed.
std::string fio_version();

/// Returns the cell with a warm-up for both programs, because the first reads of fio populate its
/// buffers.
cell comparable(cell config);

/// Returns the arguments of fio for the cell, beginning with the name of the program. Throws
/// `usage_error` if fio cannot measure the cell.
std::vector<std::string> fio_arguments(const target& source, const cell& config);

/// Parses fio's JSON output. Throws `ringload::error`.
measurement parse_fio(const std::string& json);

/// Runs both functions. `ours` is first if `run` is even, and `fio` is first if `run` is odd.
template <class Ours, class Fio>
void in_turns(std::uint32_t run, const Ours& ours, const Fio& fio) {
  if (run % 2 == 1) fio();
  ours();
  if (run % 2 == 0) fio();
}

/// Sets up the page cache as run() does. Does not measure latencies.
measurement run_fio(const target& source, const cell& config);

}  // namespace ringload::bench
