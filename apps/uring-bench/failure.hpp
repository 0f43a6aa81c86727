// SPDX-License-Identifier: Apache-2.0
#pragma once

// Throws errors that end a command with one line: place, message, cause.

#include <cerrno>
#include <ringload/error.hpp>
#include <string>

#include "base/fault.hpp"

namespace ringload::bench {

[[noreturn]] inline void fail(int error_number, const std::string& place,
                              const std::string& what = {}) {
  const auto code = system_code(error_number);
  throw error(code, place, what.empty() ? code.message() : what + ": " + code.message());
}

/// For failures without an errno.
[[noreturn]] inline void fail(const std::string& place, const std::string& what) {
  throw error(system_code(EINVAL), place, what);
}

}  // namespace ringload::bench
