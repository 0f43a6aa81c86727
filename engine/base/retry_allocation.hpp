// SPDX-License-Identifier: Apache-2.0
#pragma once

// Retries a small allocation until it succeeds, for code that cannot report std::bad_alloc. One
// example is the initiation of an awaited operation: it owns the coroutine's handler, and an
// exception there would both destroy and resume the coroutine.

#include <new>
#include <thread>

namespace ringload::inline v0 {

// Calls `work` until it does not throw std::bad_alloc. `work` must have no effect when it throws.
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
