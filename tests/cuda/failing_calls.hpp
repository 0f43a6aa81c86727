// SPDX-License-Identifier: Apache-2.0
#pragma once

// Makes each call of the CUDA runtime fail in turn, on the stand-in.

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <boost/system/error_code.hpp>
#include <ringload/cuda.hpp>
#include <ringload/error.hpp>
#include <string>

#include "cuda/fresh_runtime.hpp"
#include "support/effort.hpp"
#include "support/waiting.hpp"

namespace ringload::testing {

// Maximum number of failures of one function, because a load repeats the same few calls. With
// sanitizers, 12 failures take a minute.
inline constexpr unsigned failures_max = effort_percent == 100 ? 12 : 5;

// `work(code)` must use its own loaders and check the results that succeed. If an operation fails,
// `work` returns its error text and sets `code`, which must be the error of the failed call.
// Afterwards, no resource may remain.
template <class Work>
void for_every_failing_call(const Work& work) {
  start_afresh();
  boost::system::error_code code;
  CHECK(work(code) == "");
  const auto counted = fake_cudart::calls();
  CHECK(counted.size() > 15);
  CHECK(counted.at("cudaLaunchKernel") > 0);

  unsigned failed = 0;
  for (const auto& [function, count] : counted) {
    for (unsigned nth = 1; nth <= std::min(count, failures_max); ++nth) {
      CAPTURE(function);
      CAPTURE(nth);
      start_afresh();
      fake_cudart::fail(function, nth, cudaErrorIllegalAddress);
      if (function == "cudaHostRegister") fake_cudart::expect_pageable();
      code.clear();
      const std::string said = work(code);
      CAPTURE(said);
      if (code) {
        ++failed;
        CHECK(holds(said, "cudaErrorIllegalAddress: what CUDA says about it"));
        CHECK((code.category() == cuda_category() || code == errc::device_unavailable));
      }
      CHECK(left_over() == "");
      CHECK(misuse() == "");
    }
  }
  CHECK(failed > 15);
  start_afresh();
}

}  // namespace ringload::testing
