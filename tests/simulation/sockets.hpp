// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stream sockets of the simulated world: TCP connections, and pairs of Unix sockets. The bytes are
// in memory. The world decides when bytes arrive, and how many bytes one call transfers. A socket
// of the engine is a descriptor. The end of a simulated server has no descriptor.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringload::simulation {

// An IPv4 address in host byte order, and a port.
using address_and_port = std::pair<std::uint32_t, std::uint16_t>;

// One end of a connection. The peer may have closed its end.
class stream_end : public std::enable_shared_from_this<stream_end> {
 public:
  stream_end(int fd, bool is_tcp) : fd_(fd), is_tcp_(is_tcp) {}
  stream_end(const stream_end&) = delete;
  stream_end& operator=(const stream_end&) = delete;

  static void connect_ends(stream_end& a, stream_end& b);

  // The number of bytes that can be sent now.
  std::size_t space() const;
  // Sends bytes, at most space(). The bytes arrive later, in their order.
  void send(std::string_view bytes);
  // Moves up to `bytes` arrived bytes to `memory`.
  std::size_t receive(char* memory, std::size_t bytes);
  std::size_t arrived_bytes() const { return arrived_.size() - taken_; }

  // Sends no more bytes. The peer receives the end after the bytes.
  void end_sending();
  // Closes this end. Unread bytes reset the connection, as the kernel does.
  void close();
  // Both ends are reset at once.
  void break_connection();
  // Closes this end with a reset, which arrives after the bytes that were sent.
  void reset();

  bool is_closed() const { return is_closed_; }
  bool has_ended() const { return has_ended_; }  // The peer sends no more bytes.
  bool can_send() const { return is_connected_ && !sending_ended_ && !peer_gone_; }
  bool is_readable() const { return arrived_bytes() > 0 || has_ended_ || error_ != 0; }
  bool is_writable() const {
    return error_ != 0 || (is_connected_ && (sending_ended_ || peer_gone_ || space() > 0));
  }
  int fd() const { return fd_; }
  // Returns the pending error once, as SO_ERROR does.
  int take_error() { return std::exchange(error_, 0); }
  void fail(int error_number);  // A connection was not established.

  // Called when bytes, the end or a reset has arrived, and when the peer has read bytes. Only for
  // an end without a descriptor.
  std::function<void()> on_change;

 private:
  std::int64_t arrival_time();
  void notify();
  void arrive(const std::string& bytes);

  const int fd_;  // -1: the end of a simulated server.
  const bool is_tcp_;
  std::weak_ptr<stream_end> peer_;
  std::string arrived_;
  std::size_t taken_ = 0;             // Bytes of `arrived_` that were received.
  std::size_t bytes_on_the_way_ = 0;  // To this end.
  std::int64_t last_arrival_ = 0;     // At the peer.
  int error_ = 0;
  bool is_connected_ = false;
  bool is_closed_ = false;
  bool sending_ended_ = false;
  bool peer_gone_ = false;  // Sending is an error.
  bool has_ended_ = false;
};

// The outcome of an attempt to connect.
enum class connect_answer { accepted, refused, unanswered };

struct simulated_listener {
  std::function<connect_answer(const std::shared_ptr<stream_end>& client)> decide;
  std::function<void(std::shared_ptr<stream_end>)> accepted;
};

void begin_sockets();
void end_sockets();
// A simulated server listens at the address until the end of the world.
void listen_at(const address_and_port& address, simulated_listener listener);
// The connections of the program to this address, and the attempts to connect.
std::size_t connections_to(const address_and_port& address);
// For the functions of libc.
std::shared_ptr<stream_end> socket_of(int fd);  // Null if the descriptor is no simulated socket.
// Returns a new descriptor that only reserves its number. `type` may have SOCK_CLOEXEC and
// SOCK_NONBLOCK.
int reserve_descriptor(int type);
int new_socket(int type, bool is_tcp);
void start_connect(int fd, const address_and_port& destination);
// The descriptors of all pairs of sockets that the world has made.
const std::vector<int>& sockets_made();
// Resets both ends of the connection of this socket.
void break_connection(int fd);
// The descriptor is closed.
void close_socket(int fd);
// `duplicate` becomes another descriptor of a packet socket.
void duplicate_socket(int fd, int duplicate);

}  // namespace ringload::simulation
