// SPDX-License-Identifier: Apache-2.0
#pragma once

// The result of a sweep: a cell for each block size, number of bytes in flight and page kind.

#include <cstdint>
#include <string>
#include <vector>

#include "config.hpp"
#include "machine.hpp"
#include "report.hpp"
#include "requests.hpp"

namespace ringload::bench {

struct swept_cell {
  cell config;
  compared comparison;
  std::uint32_t disturbed = 0;  // Runs that were kept although other processes used the processors.
};

struct swept {
  std::string path;
  facts about;
  std::vector<swept_cell> cells;
  // Runs that were discarded because other processes used the processors.
  std::uint32_t repeated = 0;

  /// Returns the cell with the highest median rate. At least one cell must exist.
  const swept_cell& best() const;
};

/// Returns the cells of a request, each once. The bytes in flight are at least one block.
std::vector<cell> cells_of(const sweep_request& request);

std::string sweep_text(const swept& all);
void append_sweep(std::string& text, const swept& all);

/// Returns one HTML page without external files: heat maps, latency, processor time, the machine.
std::string sweep_page(const swept& all);

}  // namespace ringload::bench
