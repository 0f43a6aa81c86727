// SPDX-License-Identifier: Apache-2.0

#include "ranks/tcp_socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/parse_number.hpp"
#include "base/printable.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::string_view tcp_scheme = "tcp://";

// An idle connection is probed after 10 seconds, and then every 5 seconds. The kernel ends the
// connection if the peer acknowledges nothing for 25 seconds.
constexpr int idle_seconds = 10;
constexpr int between_probes_seconds = 5;
constexpr unsigned unacknowledged_ms_max = 25'000;

fault tcp_failure(int error_number) { return {system_code(error_number), ""}; }

result<void> set_option(const unique_fd& socket, int level, int option, int value) {
  if (::setsockopt(socket.get(), level, option, &value, sizeof value) == 0) return {};
  return tcp_failure(errno);
}

result<unique_fd> make_tcp_socket(const tcp_endpoint& endpoint) {
  unique_fd socket(::socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                            IPPROTO_TCP));
  if (!socket) return tcp_failure(errno);
  return socket;
}

const ::sockaddr* generic_address(const tcp_endpoint& endpoint) noexcept {
  return reinterpret_cast<const ::sockaddr*>(&endpoint.address);
}

fault invalid_address(std::string_view expected) {
  return {errc::invalid_options, "", "expected " + std::string(expected)};
}

template <class Call>
result<tcp_endpoint> endpoint_from(const unique_fd& socket, Call call) {
  tcp_endpoint out;
  out.bytes = sizeof out.address;
  auto* const address = reinterpret_cast<::sockaddr*>(&out.address);
  if (call(socket.get(), address, &out.bytes) != 0) return tcp_failure(errno);
  return out;
}

}  // namespace

result<std::optional<tcp_meeting>> parse_tcp_meeting(std::string_view text) {
  if (!text.starts_with(tcp_scheme)) return std::optional<tcp_meeting>();
  text.remove_prefix(tcp_scheme.size());
  tcp_meeting out;
  if (const auto slash = text.find('/'); slash != std::string_view::npos) {
    out.token = text.substr(slash + 1);
    text = text.substr(0, slash);
  }
  if (out.token.size() > token_bytes_max) return invalid_address("a token of at most 64 bytes");
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid_address("tcp://host:port");
  out.port = text.substr(colon + 1);
  std::string_view host = text.substr(0, colon);
  const bool is_in_brackets = host.starts_with('[') && host.ends_with(']');
  if (is_in_brackets) host = host.substr(1, host.size() - 2);
  if (host.empty() || (!is_in_brackets && host.find(':') != std::string_view::npos)) {
    return invalid_address("tcp://host:port, with brackets around an IPv6 address");
  }
  const auto number = parse_number<std::uint16_t>(out.port);
  if (!number || *number == 0) return invalid_address("a port from 1 to 65,535");
  out.host = host;
  return std::optional(std::move(out));
}

std::string without_token(std::string_view address) {
  if (!address.starts_with(tcp_scheme)) return std::string(address);
  return std::string(address.substr(0, address.find('/', tcp_scheme.size())));
}

result<std::vector<tcp_endpoint>> resolve_host(const std::string& host, const std::string& port) {
  ::addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  ::addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (failed == EAI_SYSTEM) return tcp_failure(errno);
  if (failed != 0) {
    return fault{system_code(EHOSTUNREACH), "",
                 "host '" + printable(host) + "': " + ::gai_strerror(failed)};
  }
  const std::unique_ptr<::addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  std::vector<tcp_endpoint> endpoints;
  for (const ::addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    tcp_endpoint& endpoint = endpoints.emplace_back();
    endpoint.bytes = entry->ai_addrlen;
    std::memcpy(&endpoint.address, entry->ai_addr, entry->ai_addrlen);
  }
  return endpoints;
}

tcp_endpoint with_port(tcp_endpoint endpoint, std::uint16_t port) {
  if (endpoint.address.ss_family == AF_INET6) {
    reinterpret_cast<::sockaddr_in6*>(&endpoint.address)->sin6_port = htons(port);
  } else {
    reinterpret_cast<::sockaddr_in*>(&endpoint.address)->sin_port = htons(port);
  }
  return endpoint;
}

std::uint16_t port_of(const tcp_endpoint& endpoint) {
  if (endpoint.address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const ::sockaddr_in6*>(&endpoint.address)->sin6_port);
  }
  return ntohs(reinterpret_cast<const ::sockaddr_in*>(&endpoint.address)->sin_port);
}

result<std::string> ip_of(const tcp_endpoint& endpoint) {
  std::array<char, NI_MAXHOST> text = {};
  const int failed = ::getnameinfo(generic_address(endpoint), endpoint.bytes, text.data(),
                                   text.size(), nullptr, 0, NI_NUMERICHOST);
  if (failed != 0) return fault{system_code(EINVAL), "", ::gai_strerror(failed)};
  return std::string(text.data());
}

result<tcp_endpoint> local_endpoint(const unique_fd& socket) {
  return endpoint_from(socket, ::getsockname);
}

result<tcp_endpoint> remote_endpoint(const unique_fd& socket) {
  auto endpoint = endpoint_from(socket, ::getpeername);
  if (!endpoint && endpoint.error().code == system_code(ENOTCONN)) return tcp_failure(ECONNRESET);
  return endpoint;
}

result<unique_fd> listen_on(const tcp_endpoint& endpoint) {
  auto listening = make_tcp_socket(endpoint);
  if (!listening) return listening.error();
  // Allows the use of a port that is still occupied by closed connections of an earlier group
  // (TIME_WAIT).
  if (auto done = set_option(*listening, SOL_SOCKET, SO_REUSEADDR, 1); !done) return done.error();
  if (::bind(listening->get(), generic_address(endpoint), endpoint.bytes) != 0 ||
      ::listen(listening->get(), SOMAXCONN) != 0) {
    return tcp_failure(errno);
  }
  return listening;
}

result<unique_fd> begin_connect(const tcp_endpoint& endpoint) {
  auto connection = make_tcp_socket(endpoint);
  if (!connection) return connection.error();
  if (::connect(connection->get(), generic_address(endpoint), endpoint.bytes) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    return tcp_failure(errno);
  }
  return connection;
}

result<void> finish_connect(const unique_fd& socket) {
  int failed = 0;
  ::socklen_t bytes = sizeof failed;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &failed, &bytes) != 0) {
    return tcp_failure(errno);
  }
  if (failed != 0) return tcp_failure(failed);
  const auto local = local_endpoint(socket);
  const auto remote = remote_endpoint(socket);
  if (!local) return local.error();
  if (!remote) return remote.error();
  // If no process listens, the kernel may choose the requested port as the local port. The socket
  // is then connected to itself.
  if (local->bytes == remote->bytes &&
      std::memcmp(&local->address, &remote->address, local->bytes) == 0) {
    return tcp_failure(ECONNREFUSED);
  }
  return {};
}

result<void> send_without_delay(const unique_fd& socket) {
  return set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

result<void> notice_dead_peer(const unique_fd& socket) {
  struct socket_option {
    int level;
    int name;
    int value;
  };
  const std::array<socket_option, 4> options = {{
      {IPPROTO_TCP, TCP_KEEPIDLE, idle_seconds},
      {IPPROTO_TCP, TCP_KEEPINTVL, between_probes_seconds},
      {IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(unacknowledged_ms_max)},
      {SOL_SOCKET, SO_KEEPALIVE, 1},
  }};
  for (const auto& [level, name, value] : options) {
    if (auto done = set_option(socket, level, name, value); !done) return done;
  }
  return {};
}

}  // namespace ringload::inline v0::detail
