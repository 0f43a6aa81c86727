// SPDX-License-Identifier: Apache-2.0

// How the ranks of a machine get their sockets: threads are given them; processes come to rank 0,
// say which rank they are, and get theirs by one packet.

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
constexpr std::chrono::milliseconds poll_max{1 << 30};

result<void> check_ranks(std::uint32_t rank, std::uint32_t ranks) {
  if (ranks >= 1 && ranks <= ranks_max && rank < ranks) return {};
  return fault{errc::invalid_selection, "group",
               "there is no rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                   ": a group has 1 to " + std::to_string(ranks_max)};
}

// Where ranks meet, and for how long one waits there.
struct meeting {
  const std::string& path;
  const std::uint32_t ranks;
  const clock::time_point until;
  const unique_fd& wake;  // Readable once nobody wants to join any more.
};

std::chrono::milliseconds left_until(clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now());
  return std::clamp(left, std::chrono::milliseconds(1), poll_max);
}

fault joining_cancelled() { return {system_code(ECANCELED), "", "joining was cancelled"}; }

// Until `of` has something to read, or its other end is closed. ETIMEDOUT, or ECANCELED.
result<void> await_input(const meeting& at, const unique_fd& of, clock::time_point until) {
  std::array<::pollfd, 2> all = {{{of.get(), POLLIN, 0}, {at.wake.get(), POLLIN, 0}}};
  int ready = -1;
  while (ready < 0) {
    ready = ::poll(all.data(), all.size(), static_cast<int>(left_until(until).count()));
    if (ready < 0 && errno != EINTR) return fault{system_code(errno), ""};
  }
  if (all[1].revents != 0) return joining_cancelled();
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

// Whether accept4() may succeed the next time.
bool is_passing(int number) {
  return number == EAGAIN || number == EWOULDBLOCK || number == EINTR || number == ECONNABORTED;
}

// Of rank 0: waits until all others have come.
result<std::vector<unique_fd>> gather(const meeting& at, const unique_fd& listening) {
  std::vector<unique_fd> all(at.ranks);
  std::uint32_t missing = at.ranks - 1;
  while (missing > 0) {
    if (auto came = await_input(at, listening, at.until); !came) {
      if (came.error().code != system_code(ETIMEDOUT)) return came.error();
      return fault{errc::rank_failed, "", std::to_string(missing) + " ranks did not come in time"};
    }
    unique_fd other(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!other) {
      if (!is_passing(errno)) return fault{system_code(errno), ""};
      continue;
    }
    const auto user = user_at(other);
    if (!user || *user != ::geteuid()) {
      return fault{system_code(EACCES), "", "another user's process came"};
    }
    if (auto said = await_input(at, other, at.until); !said) return said.error();
    const auto rank = rank_at(other, all);
    if (!rank) return rank.error();
    all[*rank] = std::move(other);
    --missing;
  }
  return all;
}

result<sockets_of_rank> lead(const meeting& at) {
  const auto listening = listen_at(at.path, 0600);
  if (!listening) return listening.error();
  const auto others = gather(at, *listening);
  ::unlink(at.path.c_str());
  if (!others) return others.error();
  auto sockets = all_sockets(at.ranks);
  if (!sockets) return sockets.error();
  for (std::uint32_t rank = 1; rank < at.ranks; ++rank) {
    std::vector<int> own;
    for (std::uint32_t other = 0; other < at.ranks; ++other) {
      if (other == rank) continue;
      own.push_back((*sockets)[rank][other].messages.get());
      own.push_back((*sockets)[rank][other].events.get());
    }
    auto sent = send_packet((*others)[rank], hello(rank, at.ranks), own);
    if (!sent) return sent.error();
  }
  return std::move(sockets->front());
}

// Rank 0 does not listen yet, or more come at once than the kernel lets in.
bool is_not_there_yet(const fault& what) {
  return what.code == system_code(ENOENT) || what.code == system_code(ECONNREFUSED) ||
         what.code == system_code(ETIMEDOUT);
}

result<unique_fd> come_to(const meeting& at) {
  const unique_fd nothing;  // poll() ignores it.
  for (;;) {
    auto to = connect_to(at.path, between_tries);
    if (to || !is_not_there_yet(to.error()) || clock::now() >= at.until) return to;
    const auto next_try = std::min(at.until, clock::now() + between_tries);
    const auto waited = await_input(at, nothing, next_try);
    if (waited.error().code != system_code(ETIMEDOUT)) return waited.error();
  }
}

result<sockets_of_rank> follow(const meeting& at, std::uint32_t rank) {
  const auto to = come_to(at);
  if (!to) return to.error();
  if (auto sent = send_packet(*to, hello(rank, at.ranks)); !sent) return sent.error();
  if (auto said = await_input(at, *to, at.until); !said) return said.error();
  std::array<std::byte, hello_bytes> room = {};
  auto got = receive_packet(*to, room);
  if (!got) return got.error();
  if (got->bytes == 0) return fault{errc::rank_failed, "rank 0", "it has ended, or refused us"};
  if (got->descriptors.size() != 2 * (at.ranks - 1)) {
    return fault{errc::malformed_message, "rank 0", "it sent no sockets"};
  }
  sockets_of_rank own(at.ranks);
  auto next = got->descriptors.begin();
  for (std::uint32_t other = 0; other < at.ranks; ++other) {
    if (other == rank) continue;
    own[other].messages = std::move(*next++);
    own[other].events = std::move(*next++);
  }
  return own;
}

result<sockets_of_rank> meet(const meeting& at, std::uint32_t rank, const std::stop_token& stop) {
  const std::stop_callback waking(stop, [&at] { wake_up(at.wake); });
  return rank == 0 ? lead(at) : follow(at, rank);
}

unique_fd made_wake() {
  auto wake = new_wake();
  if (!wake) throw to_error(wake.error());
  return std::move(*wake);
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
    all.push_back(std::make_unique<detail::socket_group>(rank, std::move((*sockets)[rank]),
                                                         detail::made_wake(), timeout));
  }
  return all;
}

std::unique_ptr<group> join_group(std::string_view socket, std::uint32_t rank, std::uint32_t ranks,
                                  std::chrono::milliseconds timeout, std::stop_token stop) {
  const std::string path(socket);
  if (auto good = detail::check_ranks(rank, ranks); !good) throw to_error(good.error());
  unique_fd wake = detail::made_wake();
  auto own = detail::meet({path, ranks, detail::clock::now() + timeout, wake}, rank, stop);
  if (own && stop.stop_requested()) own = detail::joining_cancelled();
  if (!own) throw to_error(own.error().in(printable_path(path)));
  // Nobody has woken it: the group's own calls wait with it.
  return std::make_unique<detail::socket_group>(rank, std::move(*own), std::move(wake), timeout);
}

}  // namespace ringload::inline v0
