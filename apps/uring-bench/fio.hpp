// SPDX-License-Identifier: Apache-2.0
#pragma once

// The same cell measured by fio, as an independent reference.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config.hpp"
#include "target.hpp"

namespace ringload::bench {

/// "fio-3.33"; empty where there is none.
std::string fio_version();

/// The cell as both measure it: with a warm-up, because fio's buffers are populated only by its
/// first reads.
cell comparable(cell what);

/// Its arguments for the cell, the program's name first. Throws `usage_error` where fio has no such
/// cell.
std::vector<std::string> fio_arguments(const target& of, const cell& what);

/// Parses fio's JSON output. Throws `ringload::error`.
measurement parse_fio(const std::string& json);

/// Runs both in turn; which one is first alternates.
template <class Ours, class Fio>
void in_turns(std::uint32_t run, const Ours& ours, const Fio& fio) {
  if (run % 2 == 1) fio();
  ours();
  if (run % 2 == 0) fio();
}

/// Sets up the page cache as run() does. Without latencies.
measurement run_fio(const target& of, const cell& what);

}  // namespace ringload::bench
