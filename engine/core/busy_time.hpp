// SPDX-License-Identifier: Apache-2.0
#pragma once

// When work was done and by which thread, noted by the thread itself. Only for loads that are
// traced: elsewhere the pointers to these are null.

#include <chrono>
#include <cstdint>

namespace ringload::inline v0 {

struct busy_time {
  using clock = std::chrono::steady_clock;
  static constexpr std::uint32_t no_thread = ~std::uint32_t{0};

  std::uint32_t thread = no_thread;
  clock::time_point begin = {};  // Of the first piece, if the work was done in several.
  clock::time_point end = {};

  // The number of the calling thread in its pool; no_thread outside of one.
  static inline thread_local std::uint32_t this_thread = no_thread;

  void begins() noexcept {
    thread = this_thread;
    if (begin == clock::time_point()) begin = clock::now();
  }
  void ends() noexcept { end = clock::now(); }
};

}  // namespace ringload::inline v0
