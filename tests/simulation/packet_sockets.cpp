// SPDX-License-Identifier: Apache-2.0

// The packet sockets of the simulated world. The descriptor of a socket is an eventfd, which only
// reserves its number.

#include "packet_sockets.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "drive.hpp"
#include "memory.hpp"
#include "real_functions.hpp"
#include "world.hpp"

namespace ringload::simulation {

namespace {

struct simulated_packets {
  std::map<int, std::shared_ptr<packet_socket>> sockets;
  std::map<std::pair<::dev_t, ::ino_t>, std::weak_ptr<packet_socket>> listeners;
  packet_rules rules;
  std::uint64_t foreign = 0;
  std::uint64_t broken = 0;
  std::size_t on_the_way = 0;  // Packets that have not arrived.
};

simulated_packets* packets = nullptr;

void close_descriptors(packet& dropped) {
  for (const int fd : dropped.descriptors) REAL(close)(fd);
  dropped.descriptors.clear();
}

}  // namespace

packet_socket::~packet_socket() {
  for (packet& left : arrived) close_descriptors(left);
}

std::shared_ptr<packet_socket> packet_socket::connect(
    const std::shared_ptr<packet_socket>& client, const std::shared_ptr<packet_socket>& listener) {
  auto server = std::make_shared<packet_socket>();
  client->peer = server;
  server->peer = client;
  client->is_connected = server->is_connected = true;
  server->accepted_by = listener;
  server->peer_user = client->user;
  listener->backlog.push_back(server);
  descriptors_changed();
  return server;
}

void packet_socket::at_arrival(std::function<void()> event) {
  if (events_ == 0 && random(2) == 0) return event();
  ++events_;
  last_arrival_ = std::max(last_arrival_, now() + transfer_nanoseconds());
  call_at(last_arrival_, [self = shared_from_this(), event = std::move(event)] {
    --self->events_;
    event();
  });
}

void packet_socket::send(packet sent) {
  const auto receiver = peer.lock();
  ++packets->on_the_way;
  const auto shared = std::make_shared<packet>(std::move(sent));
  at_arrival([receiver, shared] {
    --packets->on_the_way;
    if (receiver->is_closed) return close_descriptors(*shared);
    receiver->arrived.push_back(std::move(*shared));
    descriptors_changed();
  });
}

bool packet_socket::is_readable() const {
  return !arrived.empty() || !backlog.empty() || receiving_ended || error != 0;
}

void packet_socket::shut_down() {
  const auto receiver = peer.lock();
  sending_ended = receiving_ended = true;
  descriptors_changed();
  if (!receiver) return;
  receiver->sending_ended = true;
  at_arrival([receiver] {
    receiver->receiving_ended = true;
    descriptors_changed();
  });
}

void packet_socket::close() {
  if (std::exchange(is_closed, true)) return;
  for (const auto& waiting : std::exchange(backlog, {})) {
    // The kernel resets a connection that was not accepted.
    waiting->accepted_by = nullptr;
    const auto client = waiting->peer.lock();
    waiting->close();
    if (client) client->error = ECONNRESET;
  }
  if (accepted_by) --accepted_by->accepted_open;
  accepted_by = nullptr;
  const bool is_reset = !arrived.empty();
  for (packet& left : arrived) close_descriptors(left);
  arrived.clear();
  const auto receiver = peer.lock();
  shut_down();
  if (!receiver || !is_reset) return;
  at_arrival([receiver] {
    receiver->error = ECONNRESET;
    descriptors_changed();
  });
}

void begin_packets() { packets = new simulated_packets; }

void end_packets() {
  if (!packets->sockets.empty()) violation("a packet socket is open at the end");
  delete packets;
  packets = nullptr;
}

void set_packet_rules(const packet_rules& rules) { packets->rules = rules; }
const packet_rules& rules_of_packets() { return packets->rules; }

std::shared_ptr<packet_socket> packet_socket_of(int fd) {
  if (!is_within()) return nullptr;
  const auto found = packets->sockets.find(fd);
  return found == packets->sockets.end() ? nullptr : found->second;
}

void add_packet_descriptor(int fd, const std::shared_ptr<packet_socket>& socket) {
  packets->sockets[fd] = socket;
  ++socket->open_numbers;
}

void close_packet_socket(int fd) {
  const auto found = packets->sockets.find(fd);
  if (found == packets->sockets.end()) return;
  const auto closed = std::move(found->second);
  packets->sockets.erase(found);
  if (--closed->open_numbers > 0) return;
  closed->close();
  const auto listener = packets->listeners.find(closed->bound_to);
  if (listener != packets->listeners.end() && listener->second.lock() == closed) {
    packets->listeners.erase(listener);
  }
}

void listen_on(const std::shared_ptr<packet_socket>& socket, std::size_t backlog_max) {
  socket->is_listening = true;
  socket->backlog_max = backlog_max;
  packets->listeners[socket->bound_to] = socket;
}

std::shared_ptr<packet_socket> listening_at(const std::pair<::dev_t, ::ino_t>& file) {
  const auto found = packets->listeners.find(file);
  return found == packets->listeners.end() ? nullptr : found->second.lock();
}

std::uint64_t foreign_connections() { return packets->foreign; }
void count_foreign_connection() { ++packets->foreign; }

bool break_any_packet_connection() {
  const certain_memory simulation;
  std::vector<std::shared_ptr<packet_socket>> open;
  for (const auto& [fd, socket] : packets->sockets) {
    if (socket->is_connected && !socket->accepted_by) open.push_back(socket);
  }
  if (open.empty()) return false;
  open[random(open.size())]->shut_down();
  ++packets->broken;
  count_hard_fault();
  return true;
}

std::uint64_t broken_packet_connections() { return packets->broken; }

void await_packets() {
  while (packets->on_the_way > 0) sleep_for(100'000);
}

}  // namespace ringload::simulation
