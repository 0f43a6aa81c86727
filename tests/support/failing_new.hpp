// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes one chosen allocation of the library's threads fail. Needs failing_new.cpp, which replaces
// operator new, so each such test is a separate executable.

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <new>
#include <ringload/error.hpp>

#include "support/certain_memory.hpp"
#include "support/has_feature.hpp"

namespace ringload::testing {

inline std::atomic<std::int64_t> until_failure = -1;  // If negative, no failure follows.
inline std::atomic<bool> has_failed = false;
// The allocations of the process, without those of a thread that has a certain_memory.
inline std::atomic<std::int64_t> allocations = 0;

// The allocation with this number fails, counted from 0. Allocations of this thread, the test's
// thread, are not counted.
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

// Ends when a run has no failure. Returns the number of allocations plus 1. ThreadSanitizer looks
// for data races, which do not depend on the exact allocation: with it, every fifth allocation
// fails.
template <class Work>
std::int64_t for_every_allocation(const Work& work) {
  constexpr std::int64_t step = RINGLOAD_HAS_FEATURE(thread_sanitizer) ? 5 : 1;
  std::int64_t n = 0;
  for (bool more = true; more; n += step) {
    REQUIRE(n < 100'000);
    CAPTURE(n);
    const failing_at now(n);
    work();
    more = has_failed;
  }
  return n;
}

// Returns true if a load with a failing allocation succeeds. If the load fails, its error must have
// a reason, unless there is no memory for the text.
template <class Load>
bool succeeds_or_lacks_memory(const Load& load) {
  try {
    load();
    return true;
  } catch (const error& e) {
    CHECK(e.code() == errc::memory_exceeded);
  } catch (const std::bad_alloc&) {
    // There was no memory for the text either.
  } catch (const std::future_error&) {
    // There was no memory for the completion: the handler is destroyed, as in Asio.
  }
  return false;
}

}  // namespace ringload::testing
