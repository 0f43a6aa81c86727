// SPDX-License-Identifier: Apache-2.0

// Distributes the sockets of the ranks of a machine. Threads receive them directly. Processes
// connect to rank 0, send their rank, and receive their sockets in one packet.

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

#include "base/packet_socket.hpp"
#include "base/printable.hpp"
#include "base/serialize.hpp"
#include "ranks/socket_group.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

using clock = std::chrono::steady_clock;
using sockets_of_rank = std::vector<rank_sockets>;

// "rlrank" and the version of the protocol.
constexpr std::uint64_t hello_magic = 0x31'00'6B'6E'61'72'6C'72;
constexpr std::size_t hello_bytes = 24;
constexpr std::chrono::milliseconds between_tries{5};
constexpr std::chrono::milliseconds poll_max{1 << 30};

result<void> check_ranks(std::uint32_t rank, std::uint32_t ranks) {
  if (ranks >= 1 && ranks <= ranks_max && rank < ranks) return {};
  return fault{errc::invalid_selection, "group",
               "rank is " + std::to_string(rank) + " of " + std::to_string(ranks) +
                   ", expected a rank below the count, and 1 to " + std::to_string(ranks_max) +
                   " ranks"};
}

// The rendezvous of the ranks, and its deadline.
struct rendezvous {
  const std::string& path;
  const std::uint32_t ranks;
  const clock::time_point until;
  const unique_fd& wake;  // Becomes readable when joining is cancelled.
};

std::chrono::milliseconds left_until(clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now());
  return std::clamp(left, std::chrono::milliseconds(1), poll_max);
}

fault joining_cancelled() { return {system_code(ECANCELED), "", "joining was cancelled"}; }

// Waits until `socket` is readable or its other end is closed. Fails with ETIMEDOUT or ECANCELED.
result<void> await_input(const rendezvous& place, const unique_fd& socket,
                         clock::time_point until) {
  std::array<::pollfd, 2> polled = {{{socket.get(), POLLIN, 0}, {place.wake.get(), POLLIN, 0}}};
  int ready = -1;
  while (ready < 0) {
    ready = ::poll(polled.data(), polled.size(), static_cast<int>(left_until(until).count()));
    if (ready < 0 && errno != EINTR) return fault{system_code(errno), ""};
  }
  if (polled[1].revents != 0) return joining_cancelled();
  if (ready == 0) return fault{system_code(ETIMEDOUT), ""};
  return {};
}

std::vector<std::byte> hello(std::uint32_t rank, std::uint32_t ranks) {
  packer to;
  to.number(hello_magic);
  to.number(rank);
  to.number(ranks);
  return to.take();
}

// Receives the rank of a peer. Fails if the group does not expect this rank.
result<std::uint32_t> rank_at(const unique_fd& peer, const std::vector<unique_fd>& known) {
  std::array<std::byte, hello_bytes> room = {};
  const auto got = receive_packet(peer, room);
  if (!got) return got.error();
  unpacker in{std::span<const std::byte>(room).first(got->bytes)};
  std::uint64_t magic = 0;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  in.number(magic);
  in.number(rank);
  in.number(ranks);
  if (!in.is_complete() || magic != hello_magic) {
    return fault{errc::malformed_message, "", "a process that is not a rank connected"};
  }
  if (ranks != known.size() || rank == 0 || rank >= ranks || known[rank]) {
    return fault{errc::mismatched_call, "",
                 "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                     " joined a group of " + std::to_string(known.size()) +
                     ", or it has joined already"};
  }
  return rank;
}

// Returns true if accept4() may succeed the next time.
bool is_passing(int number) {
  return number == EAGAIN || number == EWOULDBLOCK || number == EINTR || number == ECONNABORTED;
}

// Rank 0 waits here until all others have connected.
result<std::vector<unique_fd>> gather(const rendezvous& place, const unique_fd& listening) {
  std::vector<unique_fd> peers(place.ranks);
  std::uint32_t missing = place.ranks - 1;
  while (missing > 0) {
    if (auto arrived = await_input(place, listening, place.until); !arrived) {
      if (arrived.error().code != system_code(ETIMEDOUT)) return arrived.error();
      return fault{errc::rank_failed, "", std::to_string(missing) + " ranks did not join in time"};
    }
    unique_fd peer(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer) {
      if (!is_passing(errno)) return fault{system_code(errno), ""};
      continue;
    }
    const auto user = user_at(peer);
    if (!user || *user != ::geteuid()) {
      return fault{system_code(EACCES), "", "a process of another user connected"};
    }
    if (auto arrived = await_input(place, peer, place.until); !arrived) return arrived.error();
    const auto rank = rank_at(peer, peers);
    if (!rank) return rank.error();
    peers[*rank] = std::move(peer);
    --missing;
  }
  return peers;
}

result<sockets_of_rank> lead(const rendezvous& place) {
  const auto listening = listen_at(place.path, 0600);
  if (!listening) return listening.error();
  const auto peers = gather(place, *listening);
  ::unlink(place.path.c_str());
  if (!peers) return peers.error();
  auto sockets = all_sockets(place.ranks);
  if (!sockets) return sockets.error();
  for (std::uint32_t rank = 1; rank < place.ranks; ++rank) {
    std::vector<int> rank_descriptors;
    for (std::uint32_t peer = 0; peer < place.ranks; ++peer) {
      if (peer == rank) continue;
      rank_descriptors.push_back((*sockets)[rank][peer].messages.get());
      rank_descriptors.push_back((*sockets)[rank][peer].events.get());
    }
    auto sent = send_packet((*peers)[rank], hello(rank, place.ranks), rank_descriptors);
    if (!sent) return sent.error();
  }
  return std::move(sockets->front());
}

// Rank 0 does not listen yet, or its backlog is full.
bool is_not_there_yet(const fault& problem) {
  return problem.code == system_code(ENOENT) || problem.code == system_code(ECONNREFUSED) ||
         problem.code == system_code(ETIMEDOUT);
}

result<unique_fd> connect_to_rank_0(const rendezvous& place) {
  const unique_fd no_socket;  // poll() ignores it.
  for (;;) {
    auto to = connect_to(place.path, between_tries);
    if (to || !is_not_there_yet(to.error()) || clock::now() >= place.until) return to;
    const auto next_try = std::min(place.until, clock::now() + between_tries);
    const auto waited = await_input(place, no_socket, next_try);
    if (waited.error().code != system_code(ETIMEDOUT)) return waited.error();
  }
}

result<sockets_of_rank> follow(const rendezvous& place, std::uint32_t rank) {
  const auto to = connect_to_rank_0(place);
  if (!to) return to.error();
  if (auto sent = send_packet(*to, hello(rank, place.ranks)); !sent) return sent.error();
  if (auto arrived = await_input(place, *to, place.until); !arrived) return arrived.error();
  std::array<std::byte, hello_bytes> room = {};
  auto got = receive_packet(*to, room);
  if (!got) return got.error();
  if (got->bytes == 0)
    return fault{errc::rank_failed, "rank 0", "it has ended or refused this rank"};
  if (got->descriptors.size() != 2 * (place.ranks - 1)) {
    return fault{errc::malformed_message, "rank 0",
                 "it sent " + std::to_string(got->descriptors.size()) + " descriptors, expected " +
                     std::to_string(2 * (place.ranks - 1))};
  }
  sockets_of_rank sockets(place.ranks);
  auto next = got->descriptors.begin();
  for (std::uint32_t peer = 0; peer < place.ranks; ++peer) {
    if (peer == rank) continue;
    sockets[peer].messages = std::move(*next++);
    sockets[peer].events = std::move(*next++);
  }
  return sockets;
}

result<sockets_of_rank> join_at(const rendezvous& place, std::uint32_t rank,
                                const std::stop_token& stop) {
  const std::stop_callback waking(stop, [&place] { wake_up(place.wake); });
  return rank == 0 ? lead(place) : follow(place, rank);
}

unique_fd make_wake() {
  auto wake = new_wake();
  if (!wake) throw to_error(wake.error());
  return std::move(*wake);
}

}  // namespace

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

std::unique_ptr<group> join_group(std::string_view socket, std::uint32_t rank, std::uint32_t ranks,
                                  std::chrono::milliseconds timeout, std::stop_token stop) {
  const std::string path(socket);
  if (auto status = detail::check_ranks(rank, ranks); !status) throw to_error(status.error());
  unique_fd wake = detail::make_wake();
  auto sockets = detail::join_at({path, ranks, detail::clock::now() + timeout, wake}, rank, stop);
  if (sockets && stop.stop_requested()) sockets = detail::joining_cancelled();
  if (!sockets) throw to_error(sockets.error().in(printable_path(path)));
  // The eventfd was not signalled, so the calls of the group can use it.
  return std::make_unique<detail::socket_group>(rank, std::move(*sockets), std::move(wake),
                                                timeout);
}

}  // namespace ringload::inline v0
