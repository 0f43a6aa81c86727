// SPDX-License-Identifier: Apache-2.0
#pragma once

// For the few places where nobody can be told that memory for a few bytes is missing: they wait for
// it. Such is whatever begins an operation that a coroutine awaits. The handler that it is given
// owns the coroutine, and an exception would both destroy it and go on in it.

#include <new>
#include <thread>

namespace ringload::inline v0 {

// What `work` gives, once there is memory for it. `work` changes nothing before it throws.
template <class Work>
auto surely(const Work& work) noexcept -> decltype(work()) {
  for (;;) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::yield();
    }
  }
}

}  // namespace ringload::inline v0
