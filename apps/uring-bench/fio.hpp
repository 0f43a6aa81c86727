// SPDX-License-Identifier: Apache-2.0
#pragma once

// The same cell by fio, which everybody knows and nobody suspects of flattering us.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cell.hpp"
#include "target.hpp"

namespace ringload::bench {

/// "fio-3.33"; empty where there is none.
std::string fio_version();

/// The cell as both are measured. fio's buffers are present only once it has read into each, so the
/// clock starts later, for both, and with all reads under way.
cell comparable(cell what);

/// Its arguments for the cell, the program's name first. Throws `usage_error` where fio has no such
/// cell.
std::vector<std::string> fio_arguments(const target& of, const cell& what);

/// What fio says of itself, from its JSON. Throws `ringload::error`.
measurement parse_fio(const std::string& json);

/// Both, of which the other one goes first in every second run.
template <class Ours, class Fio>
void in_turns(std::uint32_t run, const Ours& ours, const Fio& fio) {
  if (run % 2 == 1) fio();
  ours();
  if (run % 2 == 0) fio();
}

/// Establishes the page cache's state as run() does. Without latencies.
measurement run_fio(const target& of, const cell& what);

}  // namespace ringload::bench
