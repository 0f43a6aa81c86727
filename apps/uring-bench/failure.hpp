// SPDX-License-Identifier: Apache-2.0
#pragma once

// Throws errors that end a command with one line: place, message, cause.

#include <cerrno>
#include <ringload/error.hpp>
#include <string>

#include "base/fault.hpp"

namespace ringload::bench {

[[noreturn]] inline void fail(int error_number, const std::string& place,
                              const std::string& problem = {}) {
  const auto code = system_code(error_number);
  throw error(code, place, problem.empty() ? code.message() : problem + ": " + code.message());
}

/// For failures without an errno.
[[noreturn]] inline void fail(const std::string& place, const std::string& problem) {
  throw error(system_code(EINVAL), place, problem);
}

}  // namespace ringload::bench
