// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>

#include "base/mapping.hpp"

namespace ringload::bench {

// A virtual machine may have given its free memory back to its host, and then the first touch of a
// page takes the host a fault: 1 GB/s where it was measured, as slow as a slow drive. Here the
// memory that a load is about to take is touched shortly before, so that it costs what it costs on
// metal.
inline void touch_free_memory(std::uint64_t bytes) {
  auto memory = mapping::make(bytes, page_kind::transparent);
  if (!memory || populate(memory->span())) throw std::runtime_error("no memory for the load");
}

}  // namespace ringload::bench
