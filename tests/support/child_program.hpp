// SPDX-License-Identifier: Apache-2.0
#pragma once

// A child process whose output a test reads line by line. The destructor ends the process.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ringload::testing {

class child_program {
 public:
  explicit child_program(std::vector<std::string> command) {
    std::vector<char*> argv;
    for (std::string& each : command) argv.push_back(each.data());
    argv.push_back(nullptr);
    std::array<int, 2> in = {};
    std::array<int, 2> out = {};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error("pipe fails");
    }
    pid_ = ::fork();
    if (pid_ == 0) {
      // If the test is killed, the child is killed too.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
    if (pid_ < 0) throw std::runtime_error("fork fails");
  }
  child_program(child_program&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        to_(std::exchange(other.to_, -1)),
        from_(std::exchange(other.from_, -1)) {}
  child_program& operator=(child_program&& other) = delete;
  ~child_program() {
    if (pid_ > 0) kill();
    ::close(to_);
    ::close(from_);
  }

  pid_t pid() const noexcept { return pid_; }

  // The next line of its standard output, without the line feed. Empty at the end.
  std::string read_line() const {
    std::string out;
    char c = 0;
    while (::read(from_, &c, 1) == 1 && c != '\n') out += c;
    return out;
  }

  // Ends its standard input.
  void end_input() { ::close(std::exchange(to_, -1)); }

  // Waits for the end of the process. Returns the exit code, or the negative signal number.
  int exit_code() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    exit_code();
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

}  // namespace ringload::testing
