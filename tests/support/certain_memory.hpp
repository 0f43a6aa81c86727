// SPDX-License-Identifier: Apache-2.0
#pragma once

// While an object of this class exists, allocations of its thread do not fail, regardless of
// failing_new. For the test itself and for code of the caller.

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
