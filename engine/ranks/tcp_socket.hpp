// SPDX-License-Identifier: Apache-2.0
#pragma once

// TCP sockets between ranks. All sockets are nonblocking.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/socket.h>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0::detail {

// The address "tcp://host:port/token", at which the ranks of a group meet. The token may be empty.
struct tcp_meeting {
  std::string host;  // A name, an IPv4 address, or an IPv6 address without brackets.
  std::string port;
  std::string token;
};

inline constexpr std::size_t token_bytes_max = 64;

// Returns an empty optional if the text does not begin with "tcp://".
result<std::optional<tcp_meeting>> parse_tcp_meeting(std::string_view text);

// Returns the address without its token, for error messages.
std::string without_token(std::string_view address);

struct tcp_endpoint {
  ::sockaddr_storage address = {};
  ::socklen_t bytes = 0;
};

// Looks up a name. Blocks until the resolver of the system returns.
result<std::vector<tcp_endpoint>> resolve_host(const std::string& host, const std::string& port);

// Returns a copy of the endpoint with another port. If `port` is 0, the kernel chooses a port.
tcp_endpoint with_port(tcp_endpoint endpoint, std::uint16_t port);
std::uint16_t port_of(const tcp_endpoint& endpoint);

// Returns the IP address as text.
result<std::string> ip_of(const tcp_endpoint& endpoint);

result<tcp_endpoint> local_endpoint(const unique_fd& socket);
// Fails with ECONNRESET if the peer has reset the connection.
result<tcp_endpoint> remote_endpoint(const unique_fd& socket);

result<unique_fd> listen_on(const tcp_endpoint& endpoint);

// Begins to connect. The socket becomes writable when the connection is established or has failed.
result<unique_fd> begin_connect(const tcp_endpoint& endpoint);
// Must be called when the socket is writable. Fails if the connection was not established.
result<void> finish_connect(const unique_fd& socket);

// Sets TCP_NODELAY, so that the kernel sends small messages without delay.
result<void> send_without_delay(const unique_fd& socket);
// Makes the kernel probe an idle connection, so that a machine that does not answer is noticed
// within about 30 seconds. Also sets TCP_USER_TIMEOUT, which ends the connection if the receive
// buffer of the peer is full for 25 seconds, for example while the peer reads from its drive.
// Therefore this function must not be used for sockets that transport messages.
result<void> notice_dead_peer(const unique_fd& socket);

}  // namespace ringload::inline v0::detail
