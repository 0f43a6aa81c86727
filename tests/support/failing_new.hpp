// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes one chosen allocation of the library's threads fail. Needs failing_new.cpp, which replaces
// operator new, so it is for executables of their own.

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <new>
#include <ringload/error.hpp>

#include "support/certain_memory.hpp"

namespace ringload::testing {

inline std::atomic<std::int64_t> until_failure = -1;  // Below 0: none is to come.
inline std::atomic<bool> has_failed = false;

// The allocation with this number fails, counted from 0. Those of this thread, which is the test's,
// are not counted.
class failing_at {
 public:
  explicit failing_at(std::int64_t n) {
    has_failed = false;
    until_failure = n;
  }
  failing_at(const failing_at&) = delete;
  failing_at& operator=(const failing_at&) = delete;
  ~failing_at() { until_failure = -1; }

 private:
  const certain_memory for_the_test_;
};

// Ends when no allocation is left to fail. How many there were, and one more.
template <class Work>
std::int64_t for_every_allocation(const Work& work) {
  std::int64_t n = 0;
  for (bool more = true; more; ++n) {
    REQUIRE(n < 100'000);
    CAPTURE(n);
    const failing_at now(n);
    work();
    more = has_failed;
  }
  return n;
}

// Whether a load that may lack memory succeeds. If it does not, it has to say why as far as there
// is memory for that.
template <class Load>
bool succeeds_or_lacks_memory(const Load& load) {
  try {
    load();
    return true;
  } catch (const error& e) {
    CHECK(e.code() == errc::memory_exceeded);
  } catch (const std::bad_alloc&) {
    // There was no memory for a sentence either.
  } catch (const std::future_error&) {
    // There was none for the answer itself: the handler is destroyed, as Asio does with its own.
  }
  return false;
}

}  // namespace ringload::testing
