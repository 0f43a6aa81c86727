// SPDX-License-Identifier: Apache-2.0
#include "process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace ringload::testing {

namespace {

std::string read_line(int fd) {
  std::string out;
  char c = 0;
  while (::read(fd, &c, 1) == 1 && c != '\n') out += c;
  return out;
}

}  // namespace

server_process::server_process(std::vector<std::string> arguments, const std::string& errors,
                               std::string program) {
  arguments.insert(arguments.begin(), std::move(program));
  arguments.insert(arguments.end(), {"--port", "0"});
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);

  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  pid_ = ::fork();
  if (pid_ == 0) {
    // If the test is killed, the server is killed too.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    if (!errors.empty()) {
      ::dup2(::open(errors.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0666), STDERR_FILENO);
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  out_ = ends[0];
  const std::string line = read_line(out_);
  const std::size_t colon = line.rfind(':');
  if (line.starts_with("listening on ") && colon != std::string::npos) {
    port_ = static_cast<std::uint16_t>(std::strtoul(line.c_str() + colon + 1, nullptr, 10));
  }
}

server_process::~server_process() {
  if (pid_ > 0) {
    signal(SIGKILL);
    exit_code();
  }
  ::close(out_);
}

void server_process::signal(int number) const { ::kill(pid_, number); }

int server_process::exit_code() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace ringload::testing
