// SPDX-License-Identifier: Apache-2.0
#pragma once

// Unix sockets of type SOCK_SEQPACKET in the simulated world, with listening sockets at a path and
// descriptors in packets. The file of a listening socket is real, and so are the descriptors that a
// packet carries. A packet arrives at once, or after a delay that the seed decides.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ringload::simulation {

inline constexpr unsigned usual_user = 1000;
inline constexpr unsigned foreign_user = 1001;

// A packet owns its descriptors until it is received.
struct packet {
  std::string bytes;
  std::vector<int> descriptors;
};

// A listening socket, or one end of a connection.
class packet_socket : public std::enable_shared_from_this<packet_socket> {
 public:
  packet_socket() = default;
  packet_socket(const packet_socket&) = delete;
  packet_socket& operator=(const packet_socket&) = delete;
  ~packet_socket();

  static std::shared_ptr<packet_socket> connect(const std::shared_ptr<packet_socket>& client,
                                                const std::shared_ptr<packet_socket>& listener);

  // The packet arrives later. The peer may close its end before.
  void send(packet sent);
  void shut_down();
  // Closes this end. Packets that were not received reset the connection, as the kernel does.
  void close();

  bool is_readable() const;
  bool is_hung_up() const { return sending_ended && receiving_ended; }
  int take_error() { return std::exchange(error, 0); }

  bool is_listening = false;
  std::size_t backlog_max = 0;                         // Of a listening socket.
  std::deque<std::shared_ptr<packet_socket>> backlog;  // Connections that are not accepted.
  std::shared_ptr<packet_socket> accepted_by;          // The listening socket.
  std::size_t accepted_open = 0;                       // Open connections that were accepted.
  std::pair<::dev_t, ::ino_t> bound_to = {};           // The file of a listening socket.
  std::deque<packet> arrived;
  bool is_connected = false;
  bool is_closed = false;
  bool sending_ended = false;    // A send returns EPIPE.
  bool receiving_ended = false;  // A receive returns 0 after the last packet.
  int error = 0;
  std::int64_t send_limit = 0;  // Nanoseconds. 0: a call has no time limit.
  std::int64_t receive_limit = 0;
  unsigned user = usual_user;  // The user of this end.
  unsigned peer_user = usual_user;
  std::weak_ptr<packet_socket> peer;
  std::size_t open_numbers = 0;  // Descriptors of this socket.

 private:
  // Calls `event` at once or later, after all earlier events of this end.
  void at_arrival(std::function<void()> event);

  std::int64_t last_arrival_ = 0;
  std::size_t events_ = 0;  // Events that have not arrived.
};

// Rules of a world's connections.
struct packet_rules {
  unsigned foreign_percent = 0;         // Connections of a user that the keeper must not admit.
  std::size_t accepted_max = SIZE_MAX;  // Connections of a listening socket.
};

void begin_packets();
void end_packets();
void set_packet_rules(const packet_rules& rules);
const packet_rules& rules_of_packets();

// Returns null if the descriptor is no packet socket.
std::shared_ptr<packet_socket> packet_socket_of(int fd);
// `fd` becomes another descriptor of the socket.
void add_packet_descriptor(int fd, const std::shared_ptr<packet_socket>& socket);
void close_packet_socket(int fd);
void listen_on(const std::shared_ptr<packet_socket>& socket, std::size_t backlog_max);
// The listening socket of a file. Null if no socket listens.
std::shared_ptr<packet_socket> listening_at(const std::pair<::dev_t, ::ino_t>& file);

// Connections that a user made whom the keeper must not admit.
std::uint64_t foreign_connections();
void count_foreign_connection();
// Ends a random open connection, as if the process of its client ended. Returns false if there is
// none.
bool break_any_packet_connection();
std::uint64_t broken_packet_connections();
// Returns when each sent packet has arrived or is dropped.
void await_packets();

}  // namespace ringload::simulation
