// SPDX-License-Identifier: Apache-2.0
#pragma once

// Records when work was done and by which thread. The working thread writes it. Only traced loads
// use it; otherwise the pointers to it are null.

#include <chrono>
#include <cstdint>

namespace ringload::inline v0 {

struct work_interval {
  using clock = std::chrono::steady_clock;
  static constexpr std::uint32_t no_thread = ~std::uint32_t{0};

  std::uint32_t thread = no_thread;
  clock::time_point begin = {};  // Begin of the first piece if the work was done in several pieces.
  clock::time_point end = {};

  // Index of the calling thread in its pool; no_thread outside a pool.
  static inline thread_local std::uint32_t this_thread = no_thread;

  void begins() noexcept {
    thread = this_thread;
    if (begin == clock::time_point()) begin = clock::now();
  }
  void ends() noexcept { end = clock::now(); }
};

}  // namespace ringload::inline v0
