// SPDX-License-Identifier: Apache-2.0
#pragma once

// The start time, end time and thread of one work item. The working thread sets the members. Only
// traced loads have objects of this type. In other loads, the pointers to these objects are null.

#include <chrono>
#include <cstdint>

namespace ringload::inline v0 {

struct work_interval {
  using clock = std::chrono::steady_clock;
  static constexpr std::uint32_t no_thread = ~std::uint32_t{0};

  std::uint32_t thread = no_thread;
  // If the work was done in several intervals, `begin` is the start of the first interval, and
  // `end` is the end of the last interval.
  clock::time_point begin = {};
  clock::time_point end = {};

  // Index of the calling thread in its pool, or no_thread if the thread belongs to no pool.
  static inline thread_local std::uint32_t this_thread = no_thread;

  void record_begin() noexcept {
    thread = this_thread;
    if (begin == clock::time_point()) begin = clock::now();
  }
  void record_end() noexcept { end = clock::now(); }
};

}  // namespace ringload::inline v0
