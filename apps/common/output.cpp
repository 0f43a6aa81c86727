// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <exception>
#include <ringload/error.hpp>

#include "text.hpp"

namespace ringload::tool {

namespace {

constexpr std::size_t flush_at = std::size_t{256} << 10;

// Writes all of `text`. Returns 0, or the errno value of the failed write.
int write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ::ssize_t written = ::write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void output::write(std::string_view text) {
  waiting_ += text;
  if (waiting_.size() >= flush_at) flush();
}

void output::flush() {
  const int problem = write_all(STDOUT_FILENO, waiting_);
  waiting_.clear();
  if (problem == EPIPE) throw reader_gone();
  if (problem != 0) {
    throw error({problem, boost::system::system_category()}, "standard output", {});
  }
}

void complain(std::string_view program, std::string_view text) noexcept {
  try {
    write_all(STDERR_FILENO, std::string(program) + ": " + printable(text) + "\n");
  } catch (const std::exception&) {
    // There was no memory for the message. The text below needs no allocation.
    write_all(STDERR_FILENO, "error: memory: out of memory\n");
  }
}

}  // namespace ringload::tool
