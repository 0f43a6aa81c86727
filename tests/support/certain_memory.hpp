// SPDX-License-Identifier: Apache-2.0
#pragma once

// While one of these lives, allocations of its thread do not fail, whatever failing_new is told:
// for the test itself and for code that plays the caller's.

namespace ringload::testing {

inline thread_local int certain_memory_depth = 0;

class certain_memory {
 public:
  certain_memory() noexcept { ++certain_memory_depth; }
  certain_memory(const certain_memory&) = delete;
  certain_memory& operator=(const certain_memory&) = delete;
  ~certain_memory() { --certain_memory_depth; }
};

}  // namespace ringload::testing
