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
  cell what;
  compared found;
  std::uint32_t disturbed = 0;  // Runs kept although other processes used the CPUs.
};

struct swept {
  std::string path;
  facts about;
  std::vector<swept_cell> cells;
  std::uint32_t repeated = 0;  // Runs discarded because other processes used the CPUs.

  /// The cell of the highest median rate. There is one at least.
  const swept_cell& best() const;
};

/// The cells that a request stands for, each once. Less in flight than a block is one block.
std::vector<cell> cells_of(const sweep_request& request);

std::string sweep_text(const swept& all);
void append_sweep(std::string& to, const swept& all);

/// A page of HTML that needs nothing beside it: heat maps, latency, processor time, the machine.
std::string sweep_page(const swept& all);

}  // namespace ringload::bench
