// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a function in a child process, because its effects are permanent: a seccomp filter, a
// chroot. The process must have no other thread.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <stdexcept>
#include <string>

namespace ringload::testing {

// Returns the text that `work` returned, or "exception: ..." if it threw. The child must not use
// checks. It returns its observations to the parent.
template <class Work>
std::string said_in_child(const Work& work) {
  std::array<int, 2> ends = {};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe fails");
  const ::pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork fails");
  if (child == 0) {
    std::string text;
    try {
      text = work();
    } catch (const std::exception& e) {
      text = std::string("exception: ") + e.what();
    }
    std::size_t written = 0;
    while (written < text.size()) {
      const ::ssize_t took = ::write(ends[1], text.data() + written, text.size() - written);
      if (took <= 0) ::_exit(1);
      written += static_cast<std::size_t>(took);
    }
    ::_exit(0);
  }

  ::close(ends[1]);
  std::string said;
  std::array<char, 512> some = {};
  for (;;) {
    const ::ssize_t got = ::read(ends[0], some.data(), some.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    said.append(some.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error("the child died");
  return said;
}

}  // namespace ringload::testing
