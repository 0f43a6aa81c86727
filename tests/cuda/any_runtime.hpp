// SPDX-License-Identifier: Apache-2.0
#pragma once

// What tests that run on the stand-in and on a GPU need to know about which of them it is.

#ifndef RINGLOAD_REAL_CUDA
#include <doctest/doctest.h>

#include <string>

#include "device/cuda/device_memory.hpp"
#include "support/fake_cudart/fake_cudart.hpp"
#endif

namespace ringload::testing {

#ifdef RINGLOAD_REAL_CUDA

// What was read by a copy or a kernel is gone.
inline constexpr bool reading_destroys = false;
inline void begin_afresh() {}
inline void expect_pageable() {}
inline void end_well() {}

#else

inline constexpr bool reading_destroys = true;
inline void begin_afresh() {
  cuda::wait_for_returned_memory();
  fake_cudart::reset();
}
inline void expect_pageable() { fake_cudart::expect_pageable(); }
// All was given back in good order.
inline void end_well() {
  cuda::wait_for_returned_memory();
  CHECK(fake_cudart::left_over() == "");
  for (const std::string& each : fake_cudart::misuse()) CHECK(each == "");
}

#endif

}  // namespace ringload::testing
