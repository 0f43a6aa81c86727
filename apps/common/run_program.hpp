// SPDX-License-Identifier: Apache-2.0
#pragma once

// The frame of every program: an exception becomes an exit code and one line on standard error.

#include <functional>
#include <stdexcept>
#include <string_view>

namespace ringload::tool {

/// An invalid command line: exit code 2.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs `command` and returns the exit code: 0; 1 after "<program>: error: <place>: <what>"; 2
/// where the command line was wrong; 128 and the signal's number when interrupted. Call it once,
/// from main, before any file is opened.
int run_program(std::string_view program, const std::function<void()>& command);

}  // namespace ringload::tool
