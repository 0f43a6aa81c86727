// SPDX-License-Identifier: Apache-2.0

// Creates groups of ranks that are connected by sockets. Two sockets connect each pair of ranks. If
// the ranks are threads, make_thread_ranks() creates all sockets. If the ranks are processes of
// several machines, tcp_rendezvous.cpp connects the processes. If the ranks are processes of one
// machine, rank 0 listens on a Unix socket. Every other rank connects to this socket and sends its
// rank number. Rank 0 then sends each rank one packet for each of its peers, with the two sockets
// that connect the rank to this peer. Rank 0 creates and sends the sockets of one pair at a time,
// so rank 0 never holds the sockets of all pairs.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ringload/group.hpp>
#include <stop_token>
#include <utility>

#include "base/catch_as_fault.hpp"
#include "base/packet_socket.hpp"
#include "base/printable.hpp"
#include "base/serialize.hpp"
#include "ranks/rendezvous.hpp"
#include "ranks/socket_group.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

using clock = std::chrono::steady_clock;

// First number of a packet: the ASCII text "rlrank" and the version of the protocol.
constexpr std::uint64_t hello_magic = 0x32'00'6B'6E'61'72'6C'72;
constexpr std::size_t hello_bytes = 24;
constexpr std::chrono::milliseconds retry_interval{5};
constexpr std::chrono::milliseconds poll_max{1 << 30};
// The pause before a packet is sent again to a rank whose queue is full.
constexpr std::chrono::milliseconds send_interval{1};

result<void> check_ranks(std::uint32_t rank, std::uint32_t ranks) {
  if (ranks >= 1 && ranks <= ranks_max && rank < ranks) return {};
  return fault{errc::invalid_selection, "group",
               "rank is " + std::to_string(rank) + " of " + std::to_string(ranks) +
                   ", expected a rank below the count, and 1 to " + std::to_string(ranks_max) +
                   " ranks"};
}

// Returns a packet with a rank number. In a packet to rank 0, `rank` is the sender. In a packet
// from rank 0, `rank` is the peer at the other end of the two sockets in the packet.
std::vector<std::byte> hello(std::uint32_t rank, std::uint32_t ranks) {
  packer archive;
  archive.number(hello_magic);
  archive.number(rank);
  archive.number(ranks);
  return archive.take();
}

// Receives the rank of a new peer. Fails if the rank is not expected or is already connected.
result<std::uint32_t> receive_rank(const unique_fd& peer, const std::vector<unique_fd>& known) {
  std::array<std::byte, hello_bytes> buffer = {};
  const auto got = receive_packet(peer, buffer);
  if (!got) return got.error();
  unpacker archive{std::span<const std::byte>(buffer).first(got->bytes)};
  std::uint64_t magic = 0;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  archive.number(magic);
  archive.number(rank);
  archive.number(ranks);
  if (!archive.is_complete() || magic != hello_magic) {
    return fault{errc::malformed_message, "",
                 "a process connected that is not a rank of this group"};
  }
  if (ranks != known.size() || rank == 0 || rank >= ranks || known[rank]) {
    return fault{errc::mismatched_call, "",
                 "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                     " joined a group of " + std::to_string(known.size()) +
                     ", or it has joined already"};
  }
  return rank;
}

// Waits until all other ranks have connected to rank 0. Returns the connections, indexed by rank.
result<std::vector<unique_fd>> gather(const rendezvous& joining, const unique_fd& listening) {
  std::vector<unique_fd> peers(joining.ranks);
  std::uint32_t missing = joining.ranks - 1;
  while (missing > 0) {
    if (auto arrived = await_ready(joining, listening.get(), POLLIN, joining.deadline); !arrived) {
      if (arrived.error().code != system_code(ETIMEDOUT)) return arrived.error();
      return fault{errc::rank_failed, "", std::to_string(missing) + " ranks did not join in time"};
    }
    unique_fd peer(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer) {
      if (!is_temporary(errno)) return fault{system_code(errno), ""};
      continue;
    }
    const auto user = peer_user_id(peer);
    if (!user || *user != ::geteuid()) {
      return fault{system_code(EACCES), "", "a process of another user connected"};
    }
    if (auto arrived = await_ready(joining, peer.get(), POLLIN, joining.deadline); !arrived) {
      return arrived.error();
    }
    const auto rank = receive_rank(peer, peers);
    if (!rank) return rank.error();
    peers[*rank] = std::move(peer);
    --missing;
  }
  return peers;
}

// Sends a rank the two sockets that connect this rank to `peer`. `connection` is the connection
// between rank 0 and the receiving rank. Waits while the queue of `connection` is full, or while
// too many descriptors are in flight (ETOOMANYREFS, a limit of the kernel for each user).
result<void> send_sockets(const rendezvous& joining, const unique_fd& connection,
                          std::uint32_t peer, const rank_sockets& sockets) {
  const std::array<int, 2> descriptors = {sockets.messages.get(), sockets.events.get()};
  for (;;) {
    auto sent = send_packet(connection, hello(peer, joining.ranks), descriptors);
    if (sent || (sent.error().code != system_code(ETIMEDOUT) &&
                 sent.error().code != system_code(ETOOMANYREFS))) {
      return sent;
    }
    if (clock::now() >= joining.deadline) return sent;
    const auto waited = await_ready(joining, -1, 0, clock::now() + send_interval);
    if (waited.error().code != system_code(ETIMEDOUT)) return waited;
  }
}

result<sockets_of_rank> send_all_sockets(const rendezvous& joining,
                                         const std::vector<unique_fd>& connections) {
  sockets_of_rank own_sockets(joining.ranks);
  for (std::uint32_t a = 0; a < joining.ranks; ++a) {
    for (std::uint32_t b = a + 1; b < joining.ranks; ++b) {
      auto pair = make_rank_sockets();
      if (!pair) return pair.error();
      if (auto sent = send_sockets(joining, connections[b], a, (*pair)[1]); !sent) {
        return sent.error().in(rank_name(b));
      }
      if (a == 0) {
        own_sockets[b] = std::move((*pair)[0]);
      } else if (auto sent = send_sockets(joining, connections[a], b, (*pair)[0]); !sent) {
        return sent.error().in(rank_name(a));
      }
    }
  }
  return own_sockets;
}

result<sockets_of_rank> lead(const rendezvous& joining, const std::string& path) {
  const auto listening = listen_at(path, 0600);
  if (!listening) return listening.error();
  const auto connections = catch_as_fault([&] { return gather(joining, *listening); });
  ::unlink(path.c_str());
  if (!connections) return connections.error();
  return send_all_sockets(joining, *connections);
}

// Returns true if rank 0 does not listen yet, or if its queue of connections is full.
bool should_try_again(const fault& problem) {
  return problem.code == system_code(ENOENT) || problem.code == system_code(ECONNREFUSED) ||
         problem.code == system_code(ETIMEDOUT);
}

result<unique_fd> connect_to_rank_0(const rendezvous& joining, const std::string& path) {
  for (;;) {
    auto connection = connect_to(path, retry_interval);
    if (connection || !should_try_again(connection.error()) || clock::now() >= joining.deadline) {
      return connection;
    }
    const auto next_try = std::min(joining.deadline, clock::now() + retry_interval);
    const auto waited = await_ready(joining, -1, 0, next_try);
    if (waited.error().code != system_code(ETIMEDOUT)) return waited.error();
  }
}

result<void> receive_sockets(const rendezvous& joining, const unique_fd& connection,
                             sockets_of_rank& sockets) {
  if (auto arrived = await_ready(joining, connection.get(), POLLIN, joining.deadline); !arrived) {
    return arrived;
  }
  std::array<std::byte, hello_bytes> buffer = {};
  auto got = receive_packet(connection, buffer);
  if (!got) return got.error();
  if (got->bytes == 0)
    return fault{errc::rank_failed, "rank 0", "it has ended or refused this rank"};
  unpacker archive{std::span<const std::byte>(buffer).first(got->bytes)};
  std::uint64_t magic = 0;
  std::uint32_t peer = 0;
  std::uint32_t ranks = 0;
  archive.number(magic);
  archive.number(peer);
  archive.number(ranks);
  const bool is_valid = archive.is_complete() && magic == hello_magic && ranks == joining.ranks &&
                        peer < ranks && peer != joining.rank && !sockets[peer].messages;
  if (!is_valid || got->descriptors.size() != 2) {
    return fault{errc::malformed_message, "rank 0", "it sent an invalid packet"};
  }
  sockets[peer] = {std::move(got->descriptors[0]), std::move(got->descriptors[1])};
  return {};
}

result<sockets_of_rank> follow(const rendezvous& joining, const std::string& path) {
  const auto connection = connect_to_rank_0(joining, path);
  if (!connection) return connection.error();
  if (auto sent = send_packet(*connection, hello(joining.rank, joining.ranks)); !sent) {
    return sent.error();
  }
  sockets_of_rank sockets(joining.ranks);
  for (std::uint32_t peers = 1; peers < joining.ranks; ++peers) {
    if (auto received = receive_sockets(joining, *connection, sockets); !received) {
      return received.error();
    }
  }
  return sockets;
}

result<sockets_of_rank> join_at(const rendezvous& joining, const std::string& path,
                                const std::stop_token& stop) {
  const std::stop_callback waking(stop, [&joining] { wake_up(joining.wake); });
  const auto meeting = parse_tcp_meeting(path);
  if (!meeting) return meeting.error();
  if (*meeting) return meet_over_tcp(joining, **meeting);
  return meet_at_path(joining, path);
}

unique_fd make_wake() {
  auto wake = new_wake();
  if (!wake) throw to_error(wake.error());
  return std::move(*wake);
}

}  // namespace

std::chrono::milliseconds time_left(clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now());
  return std::clamp(left, std::chrono::milliseconds(1), poll_max);
}

fault joining_cancelled() { return {system_code(ECANCELED), "", "joining was cancelled"}; }

result<void> await_ready(const rendezvous& joining, int socket, short direction,
                         clock::time_point end) {
  std::array<::pollfd, 2> polled = {{{socket, direction, 0}, {joining.wake.get(), POLLIN, 0}}};
  int ready = -1;
  while (ready < 0) {
    ready = ::poll(polled.data(), polled.size(), static_cast<int>(time_left(end).count()));
    if (ready < 0 && errno != EINTR) return fault{system_code(errno), ""};
  }
  if (polled[1].revents != 0) return joining_cancelled();
  if (ready == 0) return fault{system_code(ETIMEDOUT), ""};
  return {};
}

bool is_temporary(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR ||
         error_number == ECONNABORTED;
}

result<sockets_of_rank> meet_at_path(const rendezvous& joining, const std::string& path) {
  return joining.rank == 0 ? lead(joining, path) : follow(joining, path);
}

}  // namespace detail

std::vector<std::unique_ptr<group>> make_thread_ranks(std::uint32_t ranks,
                                                      std::chrono::milliseconds timeout) {
  if (auto status = detail::check_ranks(0, ranks); !status) throw to_error(status.error());
  auto sockets = detail::all_sockets(ranks);
  if (!sockets) throw to_error(sockets.error());
  std::vector<std::unique_ptr<group>> groups;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    groups.push_back(std::make_unique<detail::socket_group>(rank, std::move((*sockets)[rank]),
                                                            detail::make_wake(), timeout));
  }
  return groups;
}

std::unique_ptr<group> join_group(std::string_view address, std::uint32_t rank, std::uint32_t ranks,
                                  std::chrono::milliseconds timeout, std::stop_token stop) {
  const std::string address_text(address);
  if (auto status = detail::check_ranks(rank, ranks); !status) throw to_error(status.error());
  unique_fd wake = detail::make_wake();
  // A longer timeout could overflow the clock.
  const auto limit = std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
  auto sockets =
      detail::join_at({rank, ranks, detail::clock::now() + limit, wake}, address_text, stop);
  if (sockets && stop.stop_requested()) sockets = detail::joining_cancelled();
  if (!sockets)
    throw to_error(sockets.error().in(printable_path(detail::without_token(address_text))));
  // `wake` was not made readable, so the group can use the same eventfd for interrupt().
  return std::make_unique<detail::socket_group>(rank, std::move(*sockets), std::move(wake),
                                                timeout);
}

}  // namespace ringload::inline v0
