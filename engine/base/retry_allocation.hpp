// SPDX-License-Identifier: Apache-2.0
#pragma once

// Retries a small allocation until the allocation succeeds. Used by code that cannot report
// std::bad_alloc. Example: a function starts an operation that a coroutine awaits, and owns the
// handler that resumes the coroutine. If the function throws, the destructor of the handler
// destroys the coroutine, and the exception then resumes the destroyed coroutine.

#include <new>
#include <thread>

namespace ringload::inline v0 {

// Calls `work` until the call does not throw std::bad_alloc. A call that throws must have no
// effect.
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
