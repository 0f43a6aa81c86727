// SPDX-License-Identifier: Apache-2.0

// The functions of libc that use sockets. Within a world, a socket is simulated.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "memory.hpp"
#include "packet_calls.hpp"
#include "packet_sockets.hpp"
#include "real_functions.hpp"
#include "scheduler.hpp"
#include "socket_calls.hpp"
#include "sockets.hpp"
#include "world.hpp"

namespace ringload::simulation {

int failed_with(int error_number) {
  errno = error_number;
  return -1;
}

bool is_blocking(int fd, int flags) {
  return (flags & MSG_DONTWAIT) == 0 && (REAL(fcntl)(fd, F_GETFL, 0) & O_NONBLOCK) == 0;
}

bool is_socket_refused() {
  if (!happens(settings().faults.socket_refused)) return false;
  count_hard_fault();
  return true;
}

void wait_for_descriptors(std::int64_t deadline) {
  self->state = simulated_thread::states::polls;
  self->deadline = deadline;
  reschedule();
}

namespace {

// One call may receive fewer bytes than have arrived.
std::size_t part_of(std::size_t bytes) {
  return bytes > 1 && random(4) == 0 ? 1 + random(bytes) : bytes;
}

ssize_t send_bytes(int fd, const iovec* parts, std::size_t count, int flags) {
  turn('d');
  const certain_memory simulation;
  if ((flags & MSG_NOSIGNAL) == 0) violation("a send without MSG_NOSIGNAL may end the process");
  for (;;) {
    const auto socket = socket_of(fd);
    if (const int error_number = socket->take_error()) return failed_with(error_number);
    if (!socket->can_send()) return failed_with(EPIPE);
    const std::size_t space = socket->space();
    std::string bytes;
    for (std::size_t i = 0; i < count && bytes.size() < space; ++i) {
      bytes.append(static_cast<const char*>(parts[i].iov_base),
                   std::min(parts[i].iov_len, space - bytes.size()));
    }
    if (!bytes.empty()) {
      socket->send(bytes);
      return static_cast<ssize_t>(bytes.size());
    }
    if (!is_blocking(fd, flags)) return failed_with(EAGAIN);
    wait_for_descriptors(never);
  }
}

ssize_t receive_bytes(int fd, const iovec* parts, std::size_t count, int flags) {
  turn('v');
  const certain_memory simulation;
  if ((flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) != 0) violation("an unknown flag of recv");
  for (;;) {
    const auto socket = socket_of(fd);
    std::size_t left = part_of(socket->arrived_bytes());
    std::size_t received = 0;
    for (std::size_t i = 0; i < count && left > 0; ++i) {
      const std::size_t got =
          socket->receive(static_cast<char*>(parts[i].iov_base), std::min(left, parts[i].iov_len));
      received += got;
      left -= got;
    }
    if (received > 0) return static_cast<ssize_t>(received);
    if (const int error_number = socket->take_error()) return failed_with(error_number);
    if (socket->has_ended()) return 0;
    if (!is_blocking(fd, flags)) return failed_with(EAGAIN);
    wait_for_descriptors(never);
  }
}

short ready_events(const stream_end& socket, short awaited) {
  int ready = 0;
  if (socket.is_readable()) ready |= POLLIN;
  if (socket.is_writable()) ready |= POLLOUT;
  return static_cast<short>(ready & awaited);
}

// Sets `revents` of each entry. Returns the number of entries that are ready.
int look_at(pollfd* polled, nfds_t count) {
  int ready = 0;
  for (nfds_t i = 0; i < count; ++i) {
    polled[i].revents = 0;
    if (polled[i].fd < 0) continue;
    if (const auto socket = socket_of(polled[i].fd)) {
      polled[i].revents = ready_events(*socket, polled[i].events);
    } else if (packet_socket_of(polled[i].fd)) {
      polled[i].revents = ready_packet_events(polled[i].fd);
    } else {
      REAL(poll)(&polled[i], 1, 0);
    }
    if (polled[i].revents != 0) ++ready;
  }
  return ready;
}

}  // namespace

}  // namespace ringload::simulation

using namespace ringload::simulation;

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  if (is_within() && domain == AF_UNIX && (type & 0xF) == SOCK_SEQPACKET) {
    return open_packet_socket(type);
  }
  const bool is_tcp = domain == AF_INET && (type & 0xF) == SOCK_STREAM;
  if (!is_within() || !is_tcp) return REAL(socket)(domain, type, protocol);
  turn('q');
  const certain_memory simulation;
  if (is_socket_refused()) return failed_with(EMFILE);
  return new_socket(type, true);
}

int socketpair(int domain, int type, int protocol, int* ends) noexcept {
  if (!is_within() || (type & 0xF) != SOCK_STREAM) {
    return REAL(socketpair)(domain, type, protocol, ends);
  }
  turn('q');
  const certain_memory simulation;
  for (int i = 0; i < 2; ++i) ends[i] = new_socket(type, false);
  stream_end::connect_ends(*socket_of(ends[0]), *socket_of(ends[1]));
  return 0;
}

int connect(int fd, const sockaddr* address, socklen_t bytes) {
  if (packet_socket_of(fd)) return connect_packets(fd, address);
  if (!socket_of(fd)) return REAL(connect)(fd, address, bytes);
  turn('q');
  const certain_memory simulation;
  const auto* const numeric = reinterpret_cast<const sockaddr_in*>(address);
  const address_and_port destination(ntohl(numeric->sin_addr.s_addr), ntohs(numeric->sin_port));
  start_connect(fd, destination);
  if (is_blocking(fd, 0)) violation("connect would block a thread");
  errno = EINPROGRESS;
  return -1;
}

int getsockopt(int fd, int level, int option, void* value, socklen_t* bytes) noexcept {
  if (packet_socket_of(fd)) return option_of_packets(fd, option, value, bytes);
  const auto socket = socket_of(fd);
  if (!socket) return REAL(getsockopt)(fd, level, option, value, bytes);
  if (level != SOL_SOCKET || option != SO_ERROR) violation("an unknown option of a socket is read");
  const int error_number = socket->take_error();
  std::memcpy(value, &error_number, sizeof error_number);
  *bytes = sizeof error_number;
  return 0;
}

int setsockopt(int fd, int level, int option, const void* value, socklen_t bytes) noexcept {
  if (packet_socket_of(fd)) return set_option_of_packets(fd, option, value);
  return socket_of(fd) ? 0 : REAL(setsockopt)(fd, level, option, value, bytes);
}

int shutdown(int fd, int direction) noexcept {
  if (const auto packets = packet_socket_of(fd)) {
    const certain_memory simulation;
    packets->shut_down();
    turn('q');
    return 0;
  }
  if (!socket_of(fd)) return REAL(shutdown)(fd, direction);
  turn('q');
  const certain_memory simulation;
  if (direction != SHUT_RD) socket_of(fd)->end_sending();
  return 0;
}

ssize_t send(int fd, const void* memory, std::size_t bytes, int flags) {
  if (!socket_of(fd)) return REAL(send)(fd, memory, bytes, flags);
  const iovec part = {const_cast<void*>(memory), bytes};
  return send_bytes(fd, &part, 1, flags);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (packet_socket_of(fd)) return send_packet_of(fd, message, flags);
  if (!socket_of(fd)) return REAL(sendmsg)(fd, message, flags);
  return send_bytes(fd, message->msg_iov, message->msg_iovlen, flags);
}

ssize_t recv(int fd, void* memory, std::size_t bytes, int flags) {
  if (!socket_of(fd)) return REAL(recv)(fd, memory, bytes, flags);
  const iovec part = {memory, bytes};
  return receive_bytes(fd, &part, 1, flags);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (packet_socket_of(fd)) return receive_packet_of(fd, message, flags);
  if (!socket_of(fd)) return REAL(recvmsg)(fd, message, flags);
  return receive_bytes(fd, message->msg_iov, message->msg_iovlen, flags);
}

int poll(pollfd* polled, nfds_t count, int limit_ms) {
  if (!is_within()) return REAL(poll)(polled, count, limit_ms);
  turn('z');
  // A call that does not wait is not interrupted.
  if (limit_ms != 0 && happens(settings().faults.interrupted)) {
    errno = EINTR;
    return -1;
  }
  const std::int64_t deadline = limit_ms < 0 ? never : now() + std::int64_t{limit_ms} * 1'000'000;
  for (;;) {
    const int ready = look_at(polled, count);
    if (ready != 0 || now() >= deadline) return ready;
    wait_for_descriptors(deadline);
  }
}

}  // extern "C"
