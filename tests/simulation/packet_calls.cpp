// SPDX-License-Identifier: Apache-2.0

// The functions of libc that use packet sockets.

#include "packet_calls.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "memory.hpp"
#include "packet_sockets.hpp"
#include "real_functions.hpp"
#include "scheduler.hpp"
#include "socket_calls.hpp"
#include "sockets.hpp"
#include "world.hpp"

namespace ringload::simulation {

namespace {

std::uint64_t random_number = 0;

bool is_interrupted() { return happens(settings().faults.interrupted); }

std::int64_t deadline_of(std::int64_t limit) { return limit == 0 ? never : now() + limit; }

// The calling thread waits for any descriptor. Returns false after the deadline.
bool wait_until(std::int64_t deadline) {
  if (now() >= deadline) return false;
  wait_for_descriptors(deadline);
  return true;
}

std::string path_of(const sockaddr* address) {
  return reinterpret_cast<const sockaddr_un*>(address)->sun_path;
}

std::vector<int> descriptors_of(const msghdr* message) {
  std::vector<int> found;
  for (const cmsghdr* head = CMSG_FIRSTHDR(message); head;
       head = CMSG_NXTHDR(const_cast<msghdr*>(message), const_cast<cmsghdr*>(head))) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    found.resize((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(found.data(), CMSG_DATA(head), found.size() * sizeof(int));
  }
  return found;
}

// Makes the descriptors that the receiver gets.
void take_descriptors(packet& sent, const msghdr* message) {
  for (const int fd : descriptors_of(message)) {
    const int passed = REAL(fcntl)(fd, F_DUPFD_CLOEXEC, 0);
    if (passed < 0) violation("a closed descriptor is sent");
    sent.descriptors.push_back(passed);
  }
}

// Writes the descriptors to the message. If the process has no descriptor left, some are lost.
void return_descriptors(packet& received, msghdr* message) {
  std::vector<int>& descriptors = received.descriptors;
  const std::size_t control_bytes = message->msg_controllen;
  message->msg_controllen = 0;
  if (descriptors.empty()) return;
  std::size_t count = descriptors.size();
  if (control_bytes < CMSG_SPACE(count * sizeof(int))) count = 0;
  if (count > 0 && is_socket_refused()) count = random(count);
  if (count < descriptors.size()) message->msg_flags |= MSG_CTRUNC;
  for (std::size_t i = count; i < descriptors.size(); ++i) REAL(close)(descriptors[i]);
  descriptors.resize(count);
  if (count == 0) return;
  auto* const head = static_cast<cmsghdr*>(message->msg_control);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(head), descriptors.data(), count * sizeof(int));
  message->msg_controllen = CMSG_SPACE(count * sizeof(int));
  descriptors.clear();
}

}  // namespace

int open_packet_socket(int type) {
  turn('q');
  const certain_memory simulation;
  if (is_socket_refused()) return failed_with(EMFILE);
  const int fd = reserve_descriptor(type);
  add_packet_descriptor(fd, std::make_shared<packet_socket>());
  return fd;
}

int connect_packets(int fd, const sockaddr* address) {
  turn('q');
  const certain_memory simulation;
  const auto client = packet_socket_of(fd);
  if (is_blocking(fd, 0) && is_interrupted()) return failed_with(EINTR);
  const std::string path = path_of(address);
  const std::int64_t deadline = deadline_of(client->send_limit);
  for (;;) {
    struct ::stat status = {};
    if (::stat(path.c_str(), &status) != 0) return failed_with(ENOENT);
    const auto listener = listening_at({status.st_dev, status.st_ino});
    if (!listener) return failed_with(ECONNREFUSED);
    if (listener->backlog.size() <= listener->backlog_max) {
      if (random(100) < rules_of_packets().foreign_percent) {
        client->user = foreign_user;
        count_foreign_connection();
      }
      packet_socket::connect(client, listener);
      return 0;
    }
    if (!is_blocking(fd, 0) || !wait_until(deadline)) return failed_with(EAGAIN);
  }
}

ssize_t send_packet_of(int fd, const msghdr* message, int flags) {
  turn('d');
  const certain_memory simulation;
  if ((flags & MSG_NOSIGNAL) == 0) violation("a send without MSG_NOSIGNAL may end the process");
  if (is_interrupted()) return failed_with(EINTR);
  const auto socket = packet_socket_of(fd);
  if (const int error_number = socket->take_error()) return failed_with(error_number);
  if (!socket->is_connected) return failed_with(ENOTCONN);
  const auto receiver = socket->peer.lock();
  if (!receiver || receiver->is_closed || socket->sending_ended) return failed_with(EPIPE);
  packet sent;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
    const iovec& part = message->msg_iov[i];
    sent.bytes.append(static_cast<const char*>(part.iov_base), part.iov_len);
  }
  // The user of the process has too many descriptors in packets.
  const bool has_descriptors = !descriptors_of(message).empty();
  if (has_descriptors && is_socket_refused()) return failed_with(ETOOMANYREFS);
  if (has_descriptors && receiver->user == foreign_user) {
    violation("a user who is not admitted receives descriptors");
  }
  take_descriptors(sent, message);
  const std::size_t bytes = sent.bytes.size();
  socket->send(std::move(sent));
  return static_cast<ssize_t>(bytes);
}

ssize_t receive_packet_of(int fd, msghdr* message, int flags) {
  turn('v');
  const certain_memory simulation;
  if (flags != MSG_CMSG_CLOEXEC) violation("a received descriptor would be inherited");
  if (is_interrupted()) return failed_with(EINTR);
  const auto socket = packet_socket_of(fd);
  const std::int64_t deadline = deadline_of(socket->receive_limit);
  for (;;) {
    if (const int error_number = socket->take_error()) return failed_with(error_number);
    if (!socket->arrived.empty()) break;
    if (socket->receiving_ended) {
      message->msg_controllen = 0;
      return 0;
    }
    if (!is_blocking(fd, flags) || !wait_until(deadline)) return failed_with(EAGAIN);
  }
  packet received = std::move(socket->arrived.front());
  socket->arrived.pop_front();
  const iovec& buffer = message->msg_iov[0];
  const std::size_t bytes = std::min(buffer.iov_len, received.bytes.size());
  std::memcpy(buffer.iov_base, received.bytes.data(), bytes);
  message->msg_flags = bytes < received.bytes.size() ? MSG_TRUNC : 0;
  return_descriptors(received, message);
  return static_cast<ssize_t>(bytes);
}

int option_of_packets(int fd, int option, void* value, socklen_t* bytes) {
  const auto socket = packet_socket_of(fd);
  if (option == SO_PEERCRED) {
    const ucred credentials = {::getpid(), socket->peer_user, socket->peer_user};
    std::memcpy(value, &credentials, sizeof credentials);
    *bytes = sizeof credentials;
    return 0;
  }
  int number = 0;
  switch (option) {
    case SO_DOMAIN: number = AF_UNIX; break;
    case SO_TYPE: number = SOCK_SEQPACKET; break;
    case SO_ACCEPTCONN: number = socket->is_listening ? 1 : 0; break;
    default: violation("an unknown option of a packet socket is read");
  }
  std::memcpy(value, &number, sizeof number);
  *bytes = sizeof number;
  return 0;
}

int set_option_of_packets(int fd, int option, const void* value) {
  const auto socket = packet_socket_of(fd);
  timeval limit = {};
  std::memcpy(&limit, value, sizeof limit);
  const std::int64_t nanoseconds =
      static_cast<std::int64_t>(limit.tv_sec) * 1'000'000'000 + limit.tv_usec * 1'000;
  if (option == SO_RCVTIMEO) socket->receive_limit = nanoseconds;
  if (option == SO_SNDTIMEO) socket->send_limit = nanoseconds;
  return 0;
}

short ready_packet_events(int fd) {
  const auto socket = packet_socket_of(fd);
  int ready = socket->is_readable() ? POLLIN : 0;
  if (socket->is_hung_up()) ready |= POLLHUP;
  if (socket->error != 0) ready |= POLLERR;
  return static_cast<short>(ready);
}

std::uint64_t last_random_number() { return random_number; }

}  // namespace ringload::simulation

using namespace ringload::simulation;

extern "C" {

int bind(int fd, const sockaddr* address, socklen_t bytes) noexcept {
  const auto socket = packet_socket_of(fd);
  if (!socket) return REAL(bind)(fd, address, bytes);
  turn('q');
  const certain_memory simulation;
  const std::string path = path_of(address);
  if (::mknod(path.c_str(), S_IFSOCK | 0777, 0) != 0) {
    return failed_with(errno == EEXIST ? EADDRINUSE : errno);
  }
  struct ::stat status = {};
  if (::stat(path.c_str(), &status) != 0) violation("the file of a socket is missing");
  socket->bound_to = {status.st_dev, status.st_ino};
  return 0;
}

int listen(int fd, int backlog) noexcept {
  const auto socket = packet_socket_of(fd);
  if (!socket) return REAL(listen)(fd, backlog);
  turn('q');
  const certain_memory simulation;
  // The limit of the system may be smaller than that of the program.
  listen_on(socket, random(2) == 0 ? random(4) : static_cast<std::size_t>(backlog));
  return 0;
}

int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  const auto socket = packet_socket_of(fd);
  if (!socket) return REAL(accept4)(fd, address, bytes, flags);
  turn('q');
  const certain_memory simulation;
  if (is_interrupted()) return failed_with(EINTR);
  if (is_blocking(fd, 0)) violation("accept would block a thread");
  if (socket->backlog.empty()) return failed_with(EAGAIN);
  if (is_socket_refused()) return failed_with(EMFILE);
  const auto accepted = socket->backlog.front();
  socket->backlog.pop_front();
  if (++socket->accepted_open > rules_of_packets().accepted_max) {
    violation("a keeper has more connections than connections_max allows");
  }
  const int accepted_fd = reserve_descriptor(flags);
  add_packet_descriptor(accepted_fd, accepted);
  descriptors_changed();  // A client may wait for room in the backlog.
  return accepted_fd;
}

// The number of a keeper.
ssize_t getrandom(void* memory, std::size_t bytes, unsigned flags) {
  if (!is_within() || bytes != sizeof random_number) return REAL(getrandom)(memory, bytes, flags);
  random_number = 1 + ringload::simulation::random(UINT64_MAX - 1);
  std::memcpy(memory, &random_number, bytes);
  return static_cast<ssize_t>(bytes);
}

}  // extern "C"
