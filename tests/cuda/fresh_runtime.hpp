// SPDX-License-Identifier: Apache-2.0
#pragma once

// A test that begins with a fresh stand-in, and sees at its end that all was given back in good
// order.

#include <doctest/doctest.h>

#include <string>
#include <thread>

#include "device/cuda/device_memory.hpp"
#include "support/fake_cudart/fake_cudart.hpp"

namespace ringload::testing {

// What is not given back, once the threads that do so have ended.
inline std::string left_over() {
  cuda::wait_for_returned_memory();
  return fake_cudart::left_over();
}

inline std::string misuse() {
  std::string text;
  for (const std::string& each : fake_cudart::misuse()) text += each + "; ";
  return text;
}

// What threads of the library still give back, they give back to the stand-in as it was.
inline void start_afresh() {
  cuda::wait_for_returned_memory();
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

// Until the device has so many copies to do, which it does not begin with while it is held.
inline void wait_for_copies(std::size_t count) {
  while (fake_cudart::waiting_copies() < count) std::this_thread::yield();
}

}  // namespace ringload::testing
