// SPDX-License-Identifier: Apache-2.0

// The stream sockets of the simulated world. The descriptor of a socket is an eventfd. Its only
// purpose is the edge that epoll reports.

#include "sockets.hpp"

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
#include "packet_sockets.hpp"
#include "real_functions.hpp"
#include "world.hpp"

namespace ringload::simulation {

namespace {

struct simulated_network {
  std::map<int, std::shared_ptr<stream_end>> sockets;
  std::map<int, address_and_port> destinations;
  std::map<address_and_port, simulated_listener> listeners;
  std::vector<int> pairs;        // Descriptors of pairs, in the order of time.
  std::size_t buffer_bytes = 0;  // Of each direction.
};

simulated_network* network = nullptr;

}  // namespace

std::shared_ptr<stream_end> socket_of(int fd) {
  if (!is_within()) return nullptr;
  const auto found = network->sockets.find(fd);
  return found == network->sockets.end() ? nullptr : found->second;
}

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

void stream_end::break_connection() {
  const auto peer = peer_.lock();
  for (stream_end* const each : {this, peer.get()}) {
    if (!each) continue;
    each->peer_gone_ = each->has_ended_ = true;
    each->error_ = ECONNRESET;
    each->notify();
  }
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
  begin_packets();
  network = new simulated_network;
  network->buffer_bytes = std::size_t{4096} << random(5);
}

void end_sockets() {
  end_packets();
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

const std::vector<int>& sockets_made() { return network->pairs; }

void break_connection(int fd) {
  if (const auto socket = socket_of(fd)) socket->break_connection();
}

void close_socket(int fd) {
  const certain_memory simulation;
  close_packet_socket(fd);
  const auto found = network->sockets.find(fd);
  if (found == network->sockets.end()) return;
  const auto closed = std::move(found->second);
  network->sockets.erase(found);
  network->destinations.erase(fd);
  closed->close();
}

void duplicate_socket(int fd, int duplicate) {
  const certain_memory simulation;
  const auto socket = packet_socket_of(fd);
  if (socket && duplicate >= 0) add_packet_descriptor(duplicate, socket);
}

int reserve_descriptor(int type) {
  const int fd = ::eventfd(0, (type & SOCK_CLOEXEC) | (type & SOCK_NONBLOCK));
  if (fd < 0) violation("no descriptor for a socket is left");
  return fd;
}

int new_socket(int type, bool is_tcp) {
  const int fd = reserve_descriptor(type);
  network->sockets[fd] = std::make_shared<stream_end>(fd, is_tcp);
  if (!is_tcp) network->pairs.push_back(fd);
  return fd;
}

namespace {

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

}  // namespace

void start_connect(int fd, const address_and_port& destination) {
  network->destinations[fd] = destination;
  call_at(now() + transfer_nanoseconds(),
          [client = network->sockets.at(fd), destination] { answer_connect(client, destination); });
}

}  // namespace ringload::simulation
