// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>

#include "base/mapping.hpp"

namespace ringload::bench {

// A virtual machine may have returned its free memory to its host. The first access to a page then
// causes a fault in the host, which limits the rate to that of a slow drive (1 GB/s in a
// measurement). This function touches the memory that a load will use shortly before the load, so
// that the costs are those of a physical machine.
inline void touch_free_memory(std::uint64_t bytes) {
  auto memory = mapping::make(bytes, page_kind::transparent);
  if (!memory || populate(memory->span())) throw std::runtime_error("no memory for the load");
}

}  // namespace ringload::bench
