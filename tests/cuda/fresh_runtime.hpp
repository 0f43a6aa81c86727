// SPDX-License-Identifier: Apache-2.0
#pragma once

// Resets the stand-in at the beginning of a test. At the end, checks that all resources were
// released correctly.

#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "device/cuda/device_memory.hpp"
#include "support/fake_cudart/fake_cudart.hpp"
#include "support/waiting.hpp"

namespace ringload::testing {

// The resources that are not released after the freeing threads have ended.
inline std::string left_over() {
  cuda::wait_for_returned_memory(patience);
  return fake_cudart::left_over();
}

inline std::string misuse() {
  std::string text;
  for (const std::string& each : fake_cudart::misuse()) text += each + "; ";
  return text;
}

// Threads of the library may still release resources, which must happen before the reset.
inline void start_afresh() {
  cuda::wait_for_returned_memory(patience);
  fake_cudart::reset();
}

class fresh_runtime {
 public:
  fresh_runtime() { start_afresh(); }
  fresh_runtime(const fresh_runtime&) = delete;
  fresh_runtime& operator=(const fresh_runtime&) = delete;
  ~fresh_runtime() {
    CHECK(left_over() == "");
    CHECK(misuse() == "");
    start_afresh();
  }
};

// Waits until this number of copies is queued on the held device.
inline void wait_for_copies(std::size_t count) {
  while (fake_cudart::waiting_copies() < count) std::this_thread::yield();
}

}  // namespace ringload::testing
