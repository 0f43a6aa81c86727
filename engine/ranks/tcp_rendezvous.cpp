// SPDX-License-Identifier: Apache-2.0

// Connects the processes of several machines over TCP. Every connection begins with a hello.
//
//   rank r        -> rank 0        hello (meeting): rank, number of ranks, token, port of rank r
//   rank 0        -> rank r        welcome, then the address of every rank, when all have joined
//   rank r        -> each lower rank    hello (messages), hello (events): rank, key of the group
//
// The token is a part of the address at which the ranks meet. Rank 0 chooses the key at random, and
// sends the key only to ranks with the right token. A rank accepts a connection for messages or
// events only if its hello contains this key. All bytes, including the token and the key, are sent
// without encryption, so the network must be trusted.
//
// A connection that does not begin with a valid hello is closed and has no other effect, because
// port scanners and health checks may send any bytes. If a hello has the right token, but a wrong
// rank or number of ranks, the meeting fails for all ranks.

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ringload/error.hpp>
#include <span>
#include <utility>

#include "base/printable.hpp"
#include "ranks/rendezvous.hpp"
#include "ranks/tcp_hello.hpp"
#include "ranks/tcp_socket.hpp"

namespace ringload::inline v0::detail {

namespace {

using tcp_clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_connects{20};
constexpr std::chrono::seconds connect_timeout{2};

// Sends a peer the reason why it cannot join. If the buffer of the socket is full, sends nothing or
// a part, and does not wait.
void refuse(const unique_fd& connection, welcome_kind kind, std::string_view reason) noexcept {
  tcp_welcome welcome;
  welcome.kind = kind;
  welcome.reason = padded<std::array<char, 512>>(reason);
  welcome.reason_bytes = static_cast<std::uint32_t>(std::min(reason.size(), welcome.reason.size()));
  (void)::send(connection.get(), &welcome, sizeof welcome, MSG_NOSIGNAL);
}

void refuse_all(const std::vector<member>& members, const fault& cause) {
  const auto kind =
      cause.code == errc::mismatched_call ? welcome_kind::mismatched : welcome_kind::failed;
  const std::string reason = to_error(cause).what();
  for (const member& peer : members) {
    if (peer.connection) refuse(peer.connection, kind, reason);
  }
}

// Adds the sender of a hello to `members`. Returns false if the sender is refused, and the other
// ranks can still join. Returns a fault if the meeting must end for all ranks.
result<bool> add_member(const rendezvous& joining, const token_field& token, arrival& peer,
                        std::vector<member>& members) {
  const tcp_hello& hello = peer.hello;
  if (hello.purpose != hello_purpose::meeting) return false;
  if (hello.token != token) {
    refuse(peer.connection, welcome_kind::mismatched,
           "the token of this rank differs from the token of rank 0");
    return false;
  }
  if (hello.ranks != joining.ranks || hello.rank == 0 || hello.rank >= joining.ranks ||
      members[hello.rank].connection) {
    const std::string reason = rank_name(hello.rank) + " of " + std::to_string(hello.ranks) +
                               " joined a group of " + std::to_string(joining.ranks) +
                               ", or it has joined already";
    refuse(peer.connection, welcome_kind::mismatched, reason);
    return fault{errc::mismatched_call, "", reason};
  }
  const auto endpoint = remote_endpoint(peer.connection);
  // The peer has closed the connection before it was added to `members`, so the same rank may join
  // again.
  if (!endpoint) return false;
  const auto ip = ip_of(*endpoint);
  if (!ip) return ip.error();
  members[hello.rank] = {std::move(peer.connection),
                         {padded<std::array<char, 64>>(*ip), hello.port}};
  return true;
}

// Waits until all other ranks have joined.
result<void> gather_members(const rendezvous& joining, const token_field& token, hello_queue& queue,
                            std::vector<member>& members) {
  std::uint32_t missing = joining.ranks - 1;
  while (missing > 0) {
    auto peer = queue.next(members);
    if (!peer && peer.error().code == system_code(ETIMEDOUT)) {
      return fault{errc::rank_failed, "", std::to_string(missing) + " ranks did not join in time"};
    }
    if (!peer) return peer.error();
    const auto is_added = add_member(joining, token, *peer, members);
    if (!is_added) return is_added.error();
    if (*is_added) --missing;
  }
  return {};
}

result<void> welcome_members(const rendezvous& joining, const token_field& key,
                             const std::vector<member>& members) {
  std::vector<rank_address> addresses;
  for (const member& peer : members) addresses.push_back(peer.address);
  tcp_welcome welcome;
  welcome.key = key;
  for (std::uint32_t rank = 1; rank < joining.ranks; ++rank) {
    const unique_fd& connection = members[rank].connection;
    auto sent = send_all(joining, connection, bytes_in(welcome));
    if (sent) sent = send_all(joining, connection, std::as_bytes(std::span(addresses)));
    if (!sent) return sent.error().in(rank_name(rank));
  }
  return {};
}

unique_fd& socket_for(rank_sockets& sockets, hello_purpose purpose) noexcept {
  return purpose == hello_purpose::messages ? sockets.messages : sockets.events;
}

result<void> set_options(const unique_fd& socket, hello_purpose purpose) {
  auto done = send_without_delay(socket);
  if (done && purpose == hello_purpose::events) done = notice_dead_peer(socket);
  return done;
}

// Accepts both connections of each higher rank.
result<void> accept_higher_ranks(const rendezvous& joining, const token_field& key,
                                 hello_queue& queue, sockets_of_rank& sockets) {
  std::uint32_t missing = 2 * (joining.ranks - 1 - joining.rank);
  while (missing > 0) {
    auto peer = queue.next({});
    if (!peer && peer.error().code == system_code(ETIMEDOUT)) {
      std::uint32_t rank = joining.rank + 1;
      while (sockets[rank].messages && sockets[rank].events) ++rank;
      return fault{errc::rank_failed, rank_name(rank), "it did not connect in time"};
    }
    if (!peer) return peer.error();
    const tcp_hello& hello = peer->hello;
    const bool is_expected =
        (hello.purpose == hello_purpose::messages || hello.purpose == hello_purpose::events) &&
        hello.token == key && hello.rank > joining.rank && hello.rank < joining.ranks;
    if (!is_expected) continue;
    unique_fd& socket = socket_for(sockets[hello.rank], hello.purpose);
    if (socket) continue;
    if (auto done = set_options(peer->connection, hello.purpose); !done) return done;
    socket = std::move(peer->connection);
    --missing;
  }
  return {};
}

result<unique_fd> connect_in_time(const rendezvous& joining, const tcp_endpoint& endpoint,
                                  tcp_clock::time_point end) {
  auto connection = begin_connect(endpoint);
  if (!connection) return connection.error();
  if (auto ready = await_ready(joining, connection->get(), POLLOUT, end); !ready) {
    return ready.error();
  }
  if (auto connected = finish_connect(*connection); !connected) return connected.error();
  return connection;
}

result<void> connect_to_rank(const rendezvous& joining, const token_field& key,
                             const tcp_endpoint& endpoint, rank_sockets& sockets) {
  for (const hello_purpose purpose : {hello_purpose::messages, hello_purpose::events}) {
    auto connection = connect_in_time(joining, endpoint, joining.deadline);
    if (!connection) return connection.error();
    if (auto done = set_options(*connection, purpose); !done) return done;
    tcp_hello hello = {
        .purpose = purpose, .rank = joining.rank, .ranks = joining.ranks, .token = key};
    if (auto sent = send_all(joining, *connection, bytes_in(hello)); !sent) return sent;
    socket_for(sockets, purpose) = std::move(*connection);
  }
  return {};
}

result<tcp_endpoint> endpoint_of(const rank_address& address) {
  const std::string ip(address.ip.data(), ::strnlen(address.ip.data(), address.ip.size()));
  const auto found = resolve_host(ip, std::to_string(address.port));
  if (!found) return found.error();
  return found->front();
}

// Returns true if rank 0 may become reachable later. Examples: rank 0 does not listen yet, its
// machine does not answer, or its host name cannot be resolved yet.
bool may_become_reachable(const fault& problem) {
  const std::array<int, 6> numbers = {ECONNREFUSED, ETIMEDOUT,  EHOSTUNREACH,
                                      ENETUNREACH,  ECONNRESET, EHOSTDOWN};
  return std::ranges::any_of(numbers,
                             [&](int number) { return problem.code == system_code(number); });
}

// Calls `attempt` until it succeeds or the deadline has passed. Stops earlier after an error for
// which may_become_reachable() returns false, and after a cancellation.
template <class T, class Attempt>
result<T> try_until_deadline(const rendezvous& joining, const Attempt& attempt) {
  for (;;) {
    result<T> outcome = attempt();
    if (outcome || !may_become_reachable(outcome.error()) || tcp_clock::now() >= joining.deadline) {
      return outcome;
    }
    const auto next_try = std::min(joining.deadline, tcp_clock::now() + between_connects);
    const auto waited = await_ready(joining, -1, 0, next_try);
    if (waited.error().code != system_code(ETIMEDOUT)) return waited.error();
  }
}

result<unique_fd> connect_to_meeting(const rendezvous& joining, const tcp_meeting& meeting) {
  return try_until_deadline<unique_fd>(joining, [&]() -> result<unique_fd> {
    const auto endpoints = resolve_host(meeting.host, meeting.port);
    if (!endpoints) return endpoints.error();
    result<unique_fd> connection = fault{system_code(EHOSTUNREACH), ""};
    for (const tcp_endpoint& endpoint : *endpoints) {
      const auto end = std::min(joining.deadline, tcp_clock::now() + connect_timeout);
      connection = connect_in_time(joining, endpoint, end);
      if (connection) break;
    }
    return connection;
  });
}

// Listens at the first address of the host that belongs to this machine.
result<unique_fd> listen_at_meeting(const rendezvous& joining, const tcp_meeting& meeting) {
  const auto endpoints = try_until_deadline<std::vector<tcp_endpoint>>(
      joining, [&] { return resolve_host(meeting.host, meeting.port); });
  if (!endpoints) return endpoints.error();
  result<unique_fd> listening = fault{system_code(EADDRNOTAVAIL), ""};
  for (const tcp_endpoint& endpoint : *endpoints) {
    listening = listen_on(endpoint);
    if (listening || (listening.error().code != system_code(EADDRNOTAVAIL) &&
                      listening.error().code != system_code(EAFNOSUPPORT))) {
      break;
    }
  }
  return listening;
}

result<token_field> random_key() {
  token_field key = {};
  if (::getrandom(key.data(), key.size(), 0) != static_cast<::ssize_t>(key.size())) {
    return fault{system_code(errno), ""};
  }
  return key;
}

result<sockets_of_rank> lead_over_tcp(const rendezvous& joining, const tcp_meeting& meeting) {
  const auto listening = listen_at_meeting(joining, meeting);
  if (!listening) return listening.error();
  const auto key = random_key();
  if (!key) return key.error();
  hello_queue queue(joining, *listening);
  std::vector<member> members(joining.ranks);
  auto gathered = gather_members(joining, padded<token_field>(meeting.token), queue, members);
  if (!gathered) {
    refuse_all(members, gathered.error());
    return gathered.error();
  }
  if (auto sent = welcome_members(joining, *key, members); !sent) return sent.error();
  sockets_of_rank sockets(joining.ranks);
  if (auto done = accept_higher_ranks(joining, *key, queue, sockets); !done) return done.error();
  return sockets;
}

result<tcp_welcome> receive_welcome(const rendezvous& joining, const unique_fd& connection) {
  tcp_welcome welcome;
  if (auto received = receive_all(joining, connection, bytes_in(welcome)); !received) {
    return received.error();
  }
  if (welcome.magic != tcp_magic || welcome.reason_bytes > welcome.reason.size()) {
    return fault{errc::malformed_message, "", "the program at this address is not rank 0"};
  }
  if (welcome.kind == welcome_kind::accepted) return welcome;
  const errc code =
      welcome.kind == welcome_kind::mismatched ? errc::mismatched_call : errc::rank_failed;
  const std::string_view reason(welcome.reason.data(), welcome.reason_bytes);
  return fault{code, "", printable(reason, reason.size())};
}

result<sockets_of_rank> follow_over_tcp(const rendezvous& joining, const tcp_meeting& meeting) {
  const auto connection = connect_to_meeting(joining, meeting);
  if (!connection) return connection.error();
  const auto local = local_endpoint(*connection);
  if (!local) return local.error();
  const auto listening = listen_on(with_port(*local, 0));
  if (!listening) return listening.error();
  const auto own_endpoint = local_endpoint(*listening);
  if (!own_endpoint) return own_endpoint.error();
  tcp_hello hello = {.rank = joining.rank,
                     .ranks = joining.ranks,
                     .port = port_of(*own_endpoint),
                     .token = padded<token_field>(meeting.token)};
  if (auto sent = send_all(joining, *connection, bytes_in(hello)); !sent) {
    return sent.error().in(rank_name(0));
  }
  const auto welcome = receive_welcome(joining, *connection);
  if (!welcome) return welcome.error().in(rank_name(0));
  std::vector<rank_address> addresses(joining.ranks);
  auto received = receive_all(joining, *connection, std::as_writable_bytes(std::span(addresses)));
  if (!received) return received.error().in(rank_name(0));

  sockets_of_rank sockets(joining.ranks);
  for (std::uint32_t peer = 0; peer < joining.rank; ++peer) {
    // Rank 0 listens at the address to which this rank has connected.
    const auto endpoint = peer == 0 ? remote_endpoint(*connection) : endpoint_of(addresses[peer]);
    if (!endpoint && peer == 0) return fault{errc::rank_failed, rank_name(0), "it has ended"};
    if (!endpoint) return endpoint.error().in(rank_name(peer));
    auto connected = connect_to_rank(joining, welcome->key, *endpoint, sockets[peer]);
    if (!connected) return connected.error().in(rank_name(peer));
  }
  hello_queue queue(joining, *listening);
  if (auto done = accept_higher_ranks(joining, welcome->key, queue, sockets); !done) {
    return done.error();
  }
  return sockets;
}

}  // namespace

result<sockets_of_rank> meet_over_tcp(const rendezvous& joining, const tcp_meeting& address) {
  return joining.rank == 0 ? lead_over_tcp(joining, address) : follow_over_tcp(joining, address);
}

}  // namespace ringload::inline v0::detail
