// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory that runs out. In some worlds, allocations of the engine fail: in its threads, and in the
// calls of a client. Allocations of the simulation itself never fail.

#include <cstdint>

#include "support/certain_memory.hpp"

namespace ringload::simulation {

// While a `certain_memory` lives, no allocation of its thread fails.
using testing::certain_memory;
using testing::certain_memory_depth;

// While an object lives, allocations of its thread may fail, also within a `certain_memory`.
class uncertain_memory {
 public:
  uncertain_memory() noexcept : before_(certain_memory_depth) { certain_memory_depth = 0; }
  uncertain_memory(const uncertain_memory&) = delete;
  uncertain_memory& operator=(const uncertain_memory&) = delete;
  ~uncertain_memory() { certain_memory_depth = before_; }

 private:
  const int before_;
};

void begin_memory();  // Called at the begin of a world.

// In a world that lacks memory, one of the next 257 allocations fails. The first ones are more
// likely.
void fail_allocation_soon();

// The number of allocations of this world that have failed.
std::uint64_t failed_allocations();

}  // namespace ringload::simulation
