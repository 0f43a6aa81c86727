// SPDX-License-Identifier: Apache-2.0
#pragma once

// A test that this machine cannot run says so: the executable then exits with 77, which ctest
// reports as skipped. A failed test still fails it.

#include <iostream>
#include <string_view>

namespace ringload::testing {

inline constexpr int skipped_exit_code = 77;
inline unsigned skipped_tests = 0;

// To be followed by `return`.
inline void skip(std::string_view why) {
  ++skipped_tests;
  std::cout << "skipped: " << why << std::endl;
}

}  // namespace ringload::testing
