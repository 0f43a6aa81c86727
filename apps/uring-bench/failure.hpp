// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ends a command with one line: where, what, and why.

#include <cerrno>
#include <ringload/error.hpp>
#include <string>

#include "core/fault.hpp"

namespace ringload::bench {

[[noreturn]] inline void fail(int error_number, const std::string& place,
                              const std::string& what = {}) {
  const auto code = system_code(error_number);
  throw error(code, place, what.empty() ? code.message() : what + ": " + code.message());
}

/// For what is no error of the system: the sentence says it all.
[[noreturn]] inline void fail(const std::string& place, const std::string& what) {
  throw error(system_code(EINVAL), place, what);
}

}  // namespace ringload::bench
