// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs the command of a program. An exception becomes an exit code and one line on standard error.

#include <functional>
#include <stdexcept>
#include <string_view>

namespace ringload::tool {

/// An invalid command line. The exit code is 2.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs `command` and returns the exit code of the program: 0 after success, 1 after an error, 2
/// after an invalid command line. After a signal, the exit code is 128 plus the number of the
/// signal. An error is written as "<program>: error: <place>: <cause>".
///
/// Must be called once, from main, before any file is opened. Raises the soft limit for open files
/// to the hard limit.
int run_program(std::string_view program, const std::function<void()>& command);

}  // namespace ringload::tool
