// SPDX-License-Identifier: Apache-2.0
#pragma once

// What allocates while one of these lives in its thread is given memory, whatever failing_new is
// told: the test itself, and what stands in for somebody else's code.

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
