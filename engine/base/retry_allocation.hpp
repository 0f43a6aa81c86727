// SPDX-License-Identifier: Apache-2.0
#pragma once

// Retries a small allocation until it succeeds. Used by code that cannot report std::bad_alloc. An
// example is a function that starts an awaited operation and owns the coroutine's handler. If this
// function throws, the exception resumes the coroutine, although the destructor of the handler has
// destroyed the coroutine.

#include <new>
#include <thread>

namespace ringload::inline v0 {

// Calls `work` again while it throws std::bad_alloc. `work` must have no effect if it throws.
template <class Work>
auto retry_allocation(const Work& work) noexcept -> decltype(work()) {
  for (;;) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::yield();
    }
  }
}

}  // namespace ringload::inline v0
