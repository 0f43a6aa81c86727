// SPDX-License-Identifier: Apache-2.0

// The stream sockets of the simulated world, and the functions of libc that use them. The
// descriptor of a socket is an eventfd. Its only purpose is the edge that epoll reports.

#include "sockets.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "drive.hpp"
#include "memory.hpp"
#include "real_functions.hpp"
#include "scheduler.hpp"
#include "world.hpp"

namespace ringload::simulation {

namespace {

struct simulated_network {
  std::map<int, std::shared_ptr<stream_end>> sockets;
  std::map<int, address_and_port> destinations;
  std::map<address_and_port, simulated_listener> listeners;
  std::size_t buffer_bytes = 0;  // Of each direction.
};

simulated_network* network = nullptr;

stream_end* socket_of(int fd) {
  if (!is_within()) return nullptr;
  const auto found = network->sockets.find(fd);
  return found == network->sockets.end() ? nullptr : found->second.get();
}

}  // namespace

void stream_end::connect_ends(stream_end& a, stream_end& b) {
  a.peer_ = b.weak_from_this();
  b.peer_ = a.weak_from_this();
  a.is_connected_ = b.is_connected_ = true;
  a.notify();
}

void stream_end::notify() {
  if (is_closed_) return;
  if (fd_ < 0) {
    // The call may replace the function.
    const std::function<void()> changed = on_change;
    if (changed) changed();
    return;
  }
  const std::uint64_t count = 1;
  if (REAL(write)(fd_, &count, sizeof count) < 0) violation("the eventfd of a socket is closed");
  descriptors_changed();
}

std::size_t stream_end::space() const {
  const auto peer = peer_.lock();
  if (!peer || peer->is_closed_) return 0;
  const std::size_t used = peer->arrived_bytes() + peer->bytes_on_the_way_;
  return network->buffer_bytes - std::min(network->buffer_bytes, used);
}

std::int64_t stream_end::arrival_time() {
  last_arrival_ = std::max(last_arrival_, now() + transfer_nanoseconds());
  return last_arrival_;
}

void stream_end::send(std::string_view bytes) {
  const auto peer = peer_.lock();
  if (!peer) return;
  peer->bytes_on_the_way_ += bytes.size();
  call_at(arrival_time(), [peer, sent = std::string(bytes)] { peer->arrive(sent); });
}

void stream_end::arrive(const std::string& bytes) {
  bytes_on_the_way_ -= bytes.size();
  if (is_closed_) {
    // A closed end answers bytes with a reset.
    reset();
    return;
  }
  arrived_ += bytes;
  notify();
}

std::size_t stream_end::receive(char* memory, std::size_t bytes) {
  const std::size_t count = std::min(bytes, arrived_bytes());
  std::memcpy(memory, arrived_.data() + taken_, count);
  taken_ += count;
  if (taken_ == arrived_.size()) {
    arrived_.clear();
    taken_ = 0;
  }
  const auto peer = peer_.lock();
  if (count > 0 && peer) peer->notify();
  return count;
}

void stream_end::end_sending() {
  if (std::exchange(sending_ended_, true)) return;
  const auto peer = peer_.lock();
  if (!peer) return;
  call_at(arrival_time(), [peer] {
    peer->has_ended_ = true;
    peer->notify();
  });
}

void stream_end::reset() {
  const bool was_closed = std::exchange(is_closed_, true);
  const auto peer = peer_.lock();
  if (!peer || (was_closed && peer->peer_gone_)) return;
  call_at(arrival_time(), [peer] {
    if (std::exchange(peer->peer_gone_, true)) return;
    peer->has_ended_ = true;
    peer->error_ = ECONNRESET;
    peer->notify();
  });
}

void stream_end::close() {
  if (is_closed_) return;
  if (arrived_bytes() > 0) return reset();
  end_sending();
  is_closed_ = true;
  const auto peer = peer_.lock();
  // The peer of a Unix socket cannot send from now on. The peer of a TCP socket learns it by the
  // reset that answers its next bytes.
  if (peer && !is_tcp_) peer->peer_gone_ = true;
}

void stream_end::fail(int error_number) {
  error_ = error_number;
  notify();
}

void begin_sockets() {
  network = new simulated_network;
  network->buffer_bytes = std::size_t{4096} << random(5);
}

void end_sockets() {
  if (!network->sockets.empty()) violation("a socket is open at the end");
  delete network;
  network = nullptr;
}

void listen_at(const address_and_port& address, simulated_listener listener) {
  network->listeners[address] = std::move(listener);
}

std::size_t connections_to(const address_and_port& address) {
  return static_cast<std::size_t>(std::ranges::count_if(
      network->destinations, [&](const auto& entry) { return entry.second == address; }));
}

void close_socket(int fd) {
  const certain_memory simulation;
  const auto found = network->sockets.find(fd);
  if (found == network->sockets.end()) return;
  const auto closed = std::move(found->second);
  network->sockets.erase(found);
  network->destinations.erase(fd);
  closed->close();
}

namespace {

int new_socket(int type, bool is_tcp) {
  const int flags = (type & SOCK_CLOEXEC) | (type & SOCK_NONBLOCK);
  const int fd = ::eventfd(0, flags);
  if (fd >= 0) network->sockets[fd] = std::make_shared<stream_end>(fd, is_tcp);
  return fd;
}

bool is_blocking(int fd, int flags) {
  return (flags & MSG_DONTWAIT) == 0 && (REAL(fcntl)(fd, F_GETFL, 0) & O_NONBLOCK) == 0;
}

// One call may transfer fewer bytes than it could.
std::size_t part_of(std::size_t bytes) {
  return bytes > 1 && random(4) == 0 ? 1 + random(bytes) : bytes;
}

// The calling thread waits for any descriptor.
void wait_for_descriptors(std::int64_t deadline) {
  self->state = simulated_thread::states::polls;
  self->deadline = deadline;
  reschedule();
}

void answer_connect(const std::shared_ptr<stream_end>& client, const address_and_port& address) {
  if (client->is_closed()) return;
  const auto found = network->listeners.find(address);
  const connect_answer answer =
      found == network->listeners.end() ? connect_answer::refused : found->second.decide(client);
  if (answer == connect_answer::refused) client->fail(ECONNREFUSED);
  if (answer != connect_answer::accepted) return;
  const auto server = std::make_shared<stream_end>(-1, true);
  stream_end::connect_ends(*client, *server);
  found->second.accepted(server);
}

ssize_t failed_with(int error_number) {
  errno = error_number;
  return -1;
}

ssize_t send_bytes(int fd, const iovec* parts, std::size_t count, int flags) {
  turn('d');
  const certain_memory simulation;
  if ((flags & MSG_NOSIGNAL) == 0) violation("a send without MSG_NOSIGNAL may end the process");
  for (;;) {
    const auto socket = network->sockets.at(fd);
    if (const int error_number = socket->take_error()) return failed_with(error_number);
    if (!socket->can_send()) return failed_with(EPIPE);
    if (happens(settings().faults.interrupted)) return failed_with(EINTR);
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i) {
      bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
    }
    if (bytes.empty()) return 0;
    const std::size_t sent = part_of(std::min(bytes.size(), socket->space()));
    if (sent > 0) {
      socket->send(std::string_view(bytes).substr(0, sent));
      return static_cast<ssize_t>(sent);
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
    const auto socket = network->sockets.at(fd);
    if (happens(settings().faults.interrupted)) return failed_with(EINTR);
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
    if (const stream_end* const socket = socket_of(polled[i].fd)) {
      polled[i].revents = ready_events(*socket, polled[i].events);
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
  const bool is_tcp = domain == AF_INET && (type & 0xF) == SOCK_STREAM;
  if (!is_within() || !is_tcp) return REAL(socket)(domain, type, protocol);
  turn('q');
  const certain_memory simulation;
  if (happens(settings().faults.socket_refused)) {
    count_hard_fault();
    errno = EMFILE;
    return -1;
  }
  return new_socket(type, true);
}

int socketpair(int domain, int type, int protocol, int* ends) noexcept {
  if (!is_within() || (type & 0xF) != SOCK_STREAM) {
    return REAL(socketpair)(domain, type, protocol, ends);
  }
  turn('q');
  const certain_memory simulation;
  for (int i = 0; i < 2; ++i) ends[i] = new_socket(type, false);
  stream_end::connect_ends(*network->sockets.at(ends[0]), *network->sockets.at(ends[1]));
  return 0;
}

int connect(int fd, const sockaddr* address, socklen_t bytes) {
  if (!socket_of(fd)) return REAL(connect)(fd, address, bytes);
  turn('q');
  const certain_memory simulation;
  const auto* const numeric = reinterpret_cast<const sockaddr_in*>(address);
  const address_and_port destination(ntohl(numeric->sin_addr.s_addr), ntohs(numeric->sin_port));
  const auto client = network->sockets.at(fd);
  network->destinations[fd] = destination;
  call_at(now() + transfer_nanoseconds(),
          [client, destination] { answer_connect(client, destination); });
  if (is_blocking(fd, 0)) violation("connect would block a thread");
  errno = EINPROGRESS;
  return -1;
}

int getsockopt(int fd, int level, int option, void* value, socklen_t* bytes) noexcept {
  stream_end* const socket = socket_of(fd);
  if (!socket) return REAL(getsockopt)(fd, level, option, value, bytes);
  if (level != SOL_SOCKET || option != SO_ERROR) violation("an unknown option of a socket is read");
  const int error_number = socket->take_error();
  std::memcpy(value, &error_number, sizeof error_number);
  *bytes = sizeof error_number;
  return 0;
}

int setsockopt(int fd, int level, int option, const void* value, socklen_t bytes) noexcept {
  return socket_of(fd) ? 0 : REAL(setsockopt)(fd, level, option, value, bytes);
}

int shutdown(int fd, int direction) noexcept {
  if (!socket_of(fd)) return REAL(shutdown)(fd, direction);
  turn('q');
  const certain_memory simulation;
  if (direction != SHUT_RD) network->sockets.at(fd)->end_sending();
  return 0;
}

ssize_t send(int fd, const void* memory, std::size_t bytes, int flags) {
  if (!socket_of(fd)) return REAL(send)(fd, memory, bytes, flags);
  const iovec part = {const_cast<void*>(memory), bytes};
  return send_bytes(fd, &part, 1, flags);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (!socket_of(fd)) return REAL(sendmsg)(fd, message, flags);
  return send_bytes(fd, message->msg_iov, message->msg_iovlen, flags);
}

ssize_t recv(int fd, void* memory, std::size_t bytes, int flags) {
  if (!socket_of(fd)) return REAL(recv)(fd, memory, bytes, flags);
  const iovec part = {memory, bytes};
  return receive_bytes(fd, &part, 1, flags);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (!socket_of(fd)) return REAL(recvmsg)(fd, message, flags);
  return receive_bytes(fd, message->msg_iov, message->msg_iovlen, flags);
}

int poll(pollfd* polled, nfds_t count, int limit_ms) {
  if (!is_within()) return REAL(poll)(polled, count, limit_ms);
  turn('z');
  if (happens(settings().faults.interrupted)) {
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
