// SPDX-License-Identifier: Apache-2.0
#include "service.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ringload/error.hpp>

namespace ringload::tool {

namespace {

constexpr int first_passed = 3;
constexpr int passed_max = 64;

[[noreturn]] void fail(const char* place, int number, std::string cause = {}) {
  throw error({number, boost::system::system_category()}, place, std::move(cause));
}

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

long number_of(const char* name) {
  const std::string_view text = variable(name);
  long number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) {
    fail(name, EINVAL, "expected a number, not '" + std::string(text) + "'");
  }
  return number;
}

}  // namespace

bool notify_service(std::string_view lines) {
  const std::string_view path = variable("NOTIFY_SOCKET");
  if (path.empty()) return false;
  ::sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const bool is_abstract = path.front() == '@';
  if ((path.front() != '/' && !is_abstract) || path.size() >= sizeof address.sun_path) {
    fail("NOTIFY_SOCKET", EINVAL, "expected the path of a socket");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (is_abstract) address.sun_path[0] = '\0';

  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) fail("NOTIFY_SOCKET", errno);
  const auto bytes = static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + path.size());
  ssize_t sent = 0;
  do {
    sent = ::sendto(socket, lines.data(), lines.size(), MSG_NOSIGNAL,
                    reinterpret_cast<const ::sockaddr*>(&address), bytes);
  } while (sent < 0 && errno == EINTR);
  const int number = errno;
  ::close(socket);
  if (sent < 0) fail("NOTIFY_SOCKET", number);
  return true;
}

std::vector<int> take_passed_sockets() {
  std::vector<int> passed;
  // If LISTEN_PID is another process, the sockets were passed to a parent process. The variables
  // were then inherited from the parent.
  if (!variable("LISTEN_PID").empty() && number_of("LISTEN_PID") == ::getpid()) {
    const long count = number_of("LISTEN_FDS");
    if (count < 0 || count > passed_max) fail("LISTEN_FDS", EINVAL, "expected 0 to 64 sockets");
    for (int descriptor = first_passed; descriptor < first_passed + count; ++descriptor) {
      if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) fail("LISTEN_FDS", errno);
      passed.push_back(descriptor);
    }
  }
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  return passed;
}

std::string monotonic_microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return "MONOTONIC_USEC=" +
         std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace ringload::tool
