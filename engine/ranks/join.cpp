// SPDX-License-Identifier: Apache-2.0

// How the ranks of a machine get their sockets: threads are given them; processes come to rank 0,
// say which rank they are, and get theirs by one packet.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <ringload/group.hpp>
#include <thread>
#include <utility>

#include "core/packet_socket.hpp"
#include "core/packing.hpp"
#include "formats/printable.hpp"
#include "ranks/socket_group.hpp"

namespace ringload::inline v0 {

namespace detail {

namespace {

using clock = std::chrono::steady_clock;
using sockets_of_rank = std::vector<rank_sockets>;

// "rlrank", and the version of the protocol.
constexpr std::uint64_t hello_magic = 0x31'00'6B'6E'61'72'6C'72;
constexpr std::size_t hello_bytes = 24;
constexpr std::chrono::milliseconds between_tries{5};

result<void> check_ranks(std::uint32_t rank, std::uint32_t ranks) {
  if (ranks >= 1 && ranks <= ranks_max && rank < ranks) return {};
  return fault{errc::invalid_selection, "group",
               "there is no rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                   ": a group has 1 to " + std::to_string(ranks_max)};
}

std::chrono::milliseconds left_until(clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

std::vector<std::byte> hello(std::uint32_t rank, std::uint32_t ranks) {
  packer to;
  to.number(hello_magic);
  to.number(rank);
  to.number(ranks);
  return to.take();
}

// The rank that somebody says it is; a fault where it is none that is awaited.
result<std::uint32_t> rank_at(const unique_fd& other, const std::vector<unique_fd>& known) {
  std::array<std::byte, hello_bytes> room = {};
  const auto got = receive_packet(other, room);
  if (!got) return got.error();
  unpacker in{std::span<const std::byte>(room).first(got->bytes)};
  std::uint64_t magic = 0;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  in.number(magic);
  in.number(rank);
  in.number(ranks);
  if (!in.good() || magic != hello_magic) {
    return fault{errc::malformed_message, "", "somebody came who is no rank"};
  }
  if (ranks != known.size() || rank == 0 || rank >= ranks || known[rank]) {
    return fault{errc::mismatched_call, "",
                 "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                     " came to a group of " + std::to_string(known.size()) +
                     ", or it was there already"};
  }
  return rank;
}

// Of rank 0: waits until all others have come.
result<std::vector<unique_fd>> gather(const unique_fd& listening, std::uint32_t ranks,
                                      clock::time_point until) {
  std::vector<unique_fd> all(ranks);
  for (std::uint32_t missing = ranks - 1; missing > 0; --missing) {
    ::pollfd next = {listening.get(), POLLIN, 0};
    const int ready = ::poll(&next, 1, static_cast<int>(left_until(until).count()));
    if (ready == 0) {
      return fault{errc::rank_failed, "", std::to_string(missing) + " ranks did not come in time"};
    }
    unique_fd other(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!other) {
      ++missing;
      continue;
    }
    const auto user = user_at(other);
    if (!user || *user != ::geteuid()) {
      return fault{system_code(EACCES), "", "another user's process came"};
    }
    const ::timeval limit = {left_until(until).count() / 1000 + 1, 0};
    (void)::setsockopt(other.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const auto rank = rank_at(other, all);
    if (!rank) return rank.error();
    all[*rank] = std::move(other);
  }
  return all;
}

result<sockets_of_rank> lead(const std::string& path, std::uint32_t ranks,
                             clock::time_point until) {
  const auto listening = listen_at(path, 0600);
  if (!listening) return listening.error();
  const auto others = gather(*listening, ranks, until);
  ::unlink(path.c_str());
  if (!others) return others.error();
  auto sockets = all_sockets(ranks);
  if (!sockets) return sockets.error();
  for (std::uint32_t rank = 1; rank < ranks; ++rank) {
    std::vector<int> own;
    for (std::uint32_t other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      own.push_back((*sockets)[rank][other].messages.get());
      own.push_back((*sockets)[rank][other].events.get());
    }
    auto sent = send_packet((*others)[rank], hello(rank, ranks), own);
    if (!sent) return sent.error();
  }
  return std::move(sockets->front());
}

bool is_not_there_yet(const fault& what) {
  return what.code == system_code(ENOENT) || what.code == system_code(ECONNREFUSED);
}

result<sockets_of_rank> follow(const std::string& path, std::uint32_t rank, std::uint32_t ranks,
                               clock::time_point until) {
  auto to = connect_to(path, left_until(until));
  while (!to && is_not_there_yet(to.error()) && clock::now() < until) {
    std::this_thread::sleep_for(between_tries);
    to = connect_to(path, left_until(until));
  }
  if (!to) return to.error();
  if (auto sent = send_packet(*to, hello(rank, ranks)); !sent) return sent.error();
  std::array<std::byte, hello_bytes> room = {};
  auto got = receive_packet(*to, room);
  if (!got) return got.error();
  if (got->bytes == 0) return fault{errc::rank_failed, "rank 0", "it has ended, or refused us"};
  if (got->descriptors.size() != 2 * (ranks - 1)) {
    return fault{errc::malformed_message, "rank 0", "it sent no sockets"};
  }
  sockets_of_rank own(ranks);
  auto next = got->descriptors.begin();
  for (std::uint32_t other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    own[other].messages = std::move(*next++);
    own[other].events = std::move(*next++);
  }
  return own;
}

std::unique_ptr<group> made_group(std::uint32_t rank, sockets_of_rank own,
                                  std::chrono::milliseconds timeout) {
  auto wake = new_wake();
  if (!wake) throw to_error(wake.error());
  return std::make_unique<socket_group>(rank, std::move(own), std::move(*wake), timeout);
}

}  // namespace

}  // namespace detail

std::vector<std::unique_ptr<group>> thread_groups(std::uint32_t ranks,
                                                  std::chrono::milliseconds timeout) {
  if (auto good = detail::check_ranks(0, ranks); !good) throw to_error(good.error());
  auto sockets = detail::all_sockets(ranks);
  if (!sockets) throw to_error(sockets.error());
  std::vector<std::unique_ptr<group>> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    all.push_back(detail::made_group(rank, std::move((*sockets)[rank]), timeout));
  }
  return all;
}

std::unique_ptr<group> join_group(std::string_view socket, std::uint32_t rank, std::uint32_t ranks,
                                  std::chrono::milliseconds timeout) {
  const std::string path(socket);
  if (auto good = detail::check_ranks(rank, ranks); !good) throw to_error(good.error());
  const auto until = detail::clock::now() + timeout;
  auto own =
      rank == 0 ? detail::lead(path, ranks, until) : detail::follow(path, rank, ranks, until);
  if (!own) throw to_error(own.error().in(printable_path(path)));
  return detail::made_group(rank, std::move(*own), timeout);
}

}  // namespace ringload::inline v0
