// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reports that this machine cannot run a test. The executable then exits with 77, which ctest
// reports as skipped, unless another test fails.

#include <iostream>
#include <string_view>

namespace ringload::testing {

inline constexpr int skipped_exit_code = 77;
inline unsigned skipped_tests = 0;

// The caller must return afterwards.
inline void skip(std::string_view why) {
  ++skipped_tests;
  std::cout << "skipped: " << why << std::endl;
}

}  // namespace ringload::testing
