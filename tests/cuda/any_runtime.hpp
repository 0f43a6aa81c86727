// SPDX-License-Identifier: Apache-2.0
#pragma once

// Functions for tests that run both on the stand-in for CUDA and on a GPU.

#include <ringload/cuda.hpp>
#include <string>

#include "support/skip.hpp"

#ifndef RINGLOAD_REAL_CUDA
#include <doctest/doctest.h>

#include "device/cuda/device_memory.hpp"
#include "support/fake_cudart/fake_cudart.hpp"
#include "support/waiting.hpp"
#endif

namespace ringload::testing {

#ifdef RINGLOAD_REAL_CUDA

// True if copies and kernels destroy their source, as on the stand-in.
inline constexpr bool reading_destroys = false;
inline void begin_afresh() {}
inline void expect_pageable() {}
inline void end_well() {}

#else

inline constexpr bool reading_destroys = true;
inline void begin_afresh() {
  cuda::wait_for_returned_memory(patience);
  fake_cudart::reset();
}
inline void expect_pageable() { fake_cudart::expect_pageable(); }
// Checks that all resources were released correctly.
inline void end_well() {
  cuda::wait_for_returned_memory(patience);
  CHECK(fake_cudart::left_over() == "");
  for (const std::string& each : fake_cudart::misuse()) CHECK(each == "");
}

#endif

// If the machine has no device, skips the test and returns false.
inline bool has_device() {
  std::string reason;
  if (cuda_device_count(&reason) > 0) return true;
  skip("no CUDA device: " + reason);
  return false;
}

// Also allows copies from and to memory that is not pinned.
inline bool has_pageable_device() {
  begin_afresh();
  expect_pageable();
  return has_device();
}

}  // namespace ringload::testing
