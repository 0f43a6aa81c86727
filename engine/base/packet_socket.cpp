// SPDX-License-Identifier: Apache-2.0

#include "base/packet_socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include "base/bounded_timeout.hpp"

namespace ringload::inline v0 {

namespace {

using clock = std::chrono::steady_clock;

// The longest wait of one call of poll().
constexpr std::int64_t poll_milliseconds_max = 1 << 30;

// For the kernel, 0 means no limit.
std::chrono::milliseconds valid_timeout(std::chrono::milliseconds timeout) {
  return std::max(detail::bounded_timeout(timeout), std::chrono::milliseconds(1));
}

std::chrono::milliseconds time_until(clock::time_point deadline) {
  return std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
}

fault failed() {
  // If the time limit of a blocking socket is exceeded, errno is EAGAIN.
  const int number = errno == EAGAIN || errno == EWOULDBLOCK ? ETIMEDOUT : errno;
  return {system_code(number), ""};
}

result<::sockaddr_un> address_of(const std::string& path) {
  ::sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof to.sun_path || path.find('\0') != std::string::npos) {
    return fault{system_code(ENAMETOOLONG), "",
                 "a socket's path has 1 to " + grouped(sizeof to.sun_path - 1) + " bytes"};
  }
  std::memcpy(to.sun_path, path.data(), path.size());
  return to;
}

const ::sockaddr* generic(const ::sockaddr_un& address) noexcept {
  return reinterpret_cast<const ::sockaddr*>(&address);
}

result<unique_fd> make_socket(int more_flags) {
  unique_fd new_socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | more_flags, 0));
  if (!new_socket) return failed();
  return new_socket;
}

// Returns true if no process listens at the socket any more.
bool is_abandoned(const std::string& path, const ::sockaddr_un& to) {
  struct ::stat status = {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return false;
  const auto probe = make_socket(SOCK_NONBLOCK);
  return probe && ::connect(probe->get(), generic(to), sizeof to) != 0 && errno == ECONNREFUSED;
}

result<void> set_timeout(const unique_fd& endpoint, std::chrono::milliseconds timeout) {
  timeout = valid_timeout(timeout);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const std::chrono::microseconds fraction = timeout - seconds;
  const ::timeval time = {seconds.count(), fraction.count()};
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    if (::setsockopt(endpoint.get(), SOL_SOCKET, option, &time, sizeof time) != 0) return failed();
  }
  return {};
}

// Locks the folder of a socket until the result is destroyed. Two programs that start at the same
// time must not replace the same abandoned socket. Otherwise the second program could remove the
// new socket of the first program. Returns without a lock if the folder cannot be read, or if
// another program holds the lock for a second.
unique_fd lock_folder_of(const std::string& path) {
  const std::size_t end = path.rfind('/');
  const std::string folder = end == std::string::npos ? "." : path.substr(0, end + 1);
  unique_fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int attempt = 0; fd && attempt < 100; ++attempt) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fd;
}

}  // namespace

result<unique_fd> listen_at(const std::string& path, unsigned mode) {
  const auto to = address_of(path);
  if (!to) return to.error();
  auto listener = make_socket(SOCK_NONBLOCK);
  if (!listener) return listener.error();
  const unique_fd lock = lock_folder_of(path);
  const auto bind_error = [&]() -> int {
    return ::bind(listener->get(), generic(*to), sizeof *to) == 0 ? 0 : errno;
  };
  // bind_error() returns errno, because is_abandoned() would overwrite errno.
  int refused = bind_error();
  if (refused == EADDRINUSE && is_abandoned(path, *to)) {
    ::unlink(path.c_str());
    refused = bind_error();
  }
  if (refused == EADDRINUSE) {
    struct ::stat status = {};
    const bool is_socket = ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
    return fault{system_code(EADDRINUSE), "",
                 is_socket ? "another program listens on this socket"
                           : "the path exists and is not a socket"};
  }
  if (refused != 0) return fault{system_code(refused), ""};
  // chmod() is called before listen(), because clients can connect only after listen().
  if (::chmod(path.c_str(), mode) != 0 || ::listen(listener->get(), SOMAXCONN) != 0) {
    const fault failure = failed();
    ::unlink(path.c_str());
    return failure;
  }
  return listener;
}

result<unique_fd> adopt_listening(int descriptor) {
  const auto value_of = [descriptor](int option) {
    int value = -1;
    ::socklen_t bytes = sizeof value;
    return ::getsockopt(descriptor, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
  };
  if (value_of(SO_DOMAIN) != AF_UNIX || value_of(SO_TYPE) != SOCK_SEQPACKET ||
      value_of(SO_ACCEPTCONN) != 1) {
    return fault{system_code(EINVAL), "",
                 "expected a listening Unix socket of type SOCK_SEQPACKET"};
  }
  unique_fd listener(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (!listener) return failed();
  const int flags = ::fcntl(listener.get(), F_GETFL);
  if (flags < 0 || ::fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0) return failed();
  return listener;
}

result<unique_fd> connect_to(const std::string& path, std::chrono::milliseconds timeout) {
  const auto to = address_of(path);
  if (!to) return to.error();
  auto connection = make_socket(0);
  if (!connection) return connection.error();
  if (auto done = set_timeout(*connection, timeout); !done) return done.error();
  const auto deadline = clock::now() + valid_timeout(timeout);
  bool is_interrupted = false;
  while (::connect(connection->get(), generic(*to), sizeof *to) != 0) {
    if (errno != EINTR) return failed();
    is_interrupted = true;
    // The time limit of the socket applies to each call of connect(). It is set to the rest of the
    // time, because otherwise periodic signals would prolong the wait without end.
    const auto left = time_until(deadline);
    if (left.count() <= 0) return fault{system_code(ETIMEDOUT), ""};
    if (auto done = set_timeout(*connection, left); !done) return done.error();
  }
  if (is_interrupted) {
    if (auto done = set_timeout(*connection, timeout); !done) return done.error();
  }
  return connection;
}

result<void> await_packet(const unique_fd& socket,
                          std::optional<std::chrono::milliseconds> timeout) {
  const auto deadline =
      clock::now() + valid_timeout(timeout.value_or(std::chrono::milliseconds(0)));
  for (;;) {
    std::int64_t wait = -1;
    if (timeout) {
      wait = std::clamp<std::int64_t>(time_until(deadline).count(), 0, poll_milliseconds_max);
    }
    ::pollfd input = {socket.get(), POLLIN, 0};
    const int ready = ::poll(&input, 1, static_cast<int>(wait));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return failed();
    if (timeout && time_until(deadline).count() <= 0) return fault{system_code(ETIMEDOUT), ""};
  }
}

result<void> send_packet(const unique_fd& socket, std::span<const std::byte> bytes,
                         std::span<const int> descriptors) {
  ::iovec buffer = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  ::msghdr message = {};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  alignas(::cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * descriptors_max)> control = {};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    ::cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  while (::sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return failed();
  }
  return {};
}

result<received_packet> receive_packet(const unique_fd& socket, std::span<std::byte> buffer) {
  ::iovec data = {buffer.data(), buffer.size()};
  alignas(::cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * descriptors_max)> control = {};
  ::msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  received_packet out;
  // Reserves memory now, because an allocation failure after recvmsg() would leak descriptors.
  out.descriptors.reserve(descriptors_max);
  ::ssize_t got = 0;
  while ((got = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno != EINTR) return failed();
  }
  out.bytes = static_cast<std::size_t>(got);
  for (::cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::array<int, descriptors_max> received = {};
    std::memcpy(received.data(), CMSG_DATA(head), std::min(count, received.size()) * sizeof(int));
    for (std::size_t i = 0; i < std::min(count, received.size()); ++i) {
      out.descriptors.emplace_back(received[i]);
    }
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fault{errc::malformed_message, "",
                 "a packet is larger than the protocol allows, or its descriptors exceed the limit "
                 "of this process (ulimit -n)"};
  }
  return out;
}

result<unsigned> peer_user_id(const unique_fd& socket) {
  ::ucred peer = {};
  ::socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return failed();
  return peer.uid;
}

}  // namespace ringload::inline v0
