// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ringload::testing {

/// The server as a separate process. The destructor kills the process if it has not ended.
class server_process {
 public:
  /// Returns when the server listens or has ended. Its standard error is the file `errors`. If
  /// `errors` is empty, the server shares the standard error of this process.
  explicit server_process(std::vector<std::string> arguments, const std::string& errors = {},
                          std::string program = MODEL_SERVER);
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;
  ~server_process();

  pid_t pid() const noexcept { return pid_; }
  std::uint16_t port() const noexcept { return port_; }  // 0 if the server does not listen.

  void signal(int number) const;
  /// Waits for the end of the process. Returns the exit code, or the negative signal number.
  int exit_code();

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  int out_ = -1;
};

}  // namespace ringload::testing
