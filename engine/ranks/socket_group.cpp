// SPDX-License-Identifier: Apache-2.0
#include "ranks/socket_group.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/printable.hpp"

namespace ringload::inline v0::detail {

namespace {

// The content of an event packet. Only the used part of the text is sent.
struct event {
  socket_group::event_kind kind = socket_group::event_kind::left;
  std::uint32_t about = 0;  // The rank that failed first. Another rank may report it.
  std::array<char, 2000> text = {};
};
constexpr std::size_t event_head_bytes = offsetof(event, text);

std::string name_of(std::uint32_t rank) { return "rank " + std::to_string(rank); }

// Limit on the answer of an asked rank. A rank that waits in a call answers at once.
constexpr std::chrono::seconds answer_time{1};

void tell(const rank_sockets& to, socket_group::event_kind kind, std::uint32_t about) noexcept {
  const event packet = {kind, about, {}};
  (void)::send(to.events.get(), &packet, event_head_bytes, MSG_NOSIGNAL);
}

bool would_block() noexcept { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

result<unique_fd> new_wake() {
  unique_fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return fault{system_code(errno), "group"};
  return event;
}

void wake_up(const unique_fd& wake) noexcept {
  const std::uint64_t increment = 1;
  (void)::write(wake.get(), &increment, sizeof increment);
}

result<std::vector<std::vector<rank_sockets>>> all_sockets(std::uint32_t ranks) {
  std::vector<std::vector<rank_sockets>> sockets(ranks);
  for (auto& row : sockets) row.resize(ranks);
  for (std::uint32_t a = 0; a < ranks; ++a) {
    for (std::uint32_t b = a + 1; b < ranks; ++b) {
      for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
        std::array<int, 2> ends = {};
        if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
          return fault{system_code(errno), "group"};
        }
        unique_fd rank_sockets::* const member =
            type == SOCK_STREAM ? &rank_sockets::messages : &rank_sockets::events;
        sockets[a][b].*member = unique_fd(ends[0]);
        sockets[b][a].*member = unique_fd(ends[1]);
      }
    }
  }
  return sockets;
}

socket_group::socket_group(std::uint32_t rank, std::vector<rank_sockets> peers, unique_fd wake,
                           std::chrono::milliseconds timeout)
    : rank_(rank),
      timeout_(timeout),
      peers_(std::move(peers)),
      left_(peers_.size()),
      waits_for_(rank),
      wake_(std::move(wake)) {}

socket_group::~socket_group() {
  if (!ended_) notify_all(event_kind::left, rank_, {});
}

void socket_group::notify_all(event_kind kind, std::uint32_t about,
                              std::string_view text) noexcept {
  event packet = {kind, about, {}};
  const std::size_t bytes = std::min(text.size(), packet.text.size());
  std::copy_n(text.begin(), bytes, packet.text.begin());
  for (const rank_sockets& peer : peers_) {
    if (!peer.events) continue;
    (void)::send(peer.events.get(), &packet, event_head_bytes + bytes, MSG_NOSIGNAL);
  }
}

void socket_group::fail(std::string_view reason) noexcept {
  if (ended_) return;
  notify_all(event_kind::failed, rank_, reason);
  try {
    ended_.emplace(errc::rank_failed, name_of(rank_), std::string(reason));
  } catch (const std::bad_alloc&) {
    ended_.emplace(errc::rank_failed, std::string(), std::string());  // Allocates no memory.
  }
}

void socket_group::interrupt() noexcept {
  interrupted_ = true;
  wake_up(wake_);
}

void socket_group::check() const {
  if (ended_) throw *ended_;
  if (interrupted_) throw error(system_code(ECANCELED), "group", "interrupted");
}

// Another rank may learn of the failure from this rank first.
void socket_group::give_up(std::uint32_t because_of, const std::string& reason) {
  notify_all(event_kind::failed, because_of, reason);
  ended_.emplace(errc::rank_failed, name_of(because_of), reason);
  throw *ended_;
}

void socket_group::take_event(std::uint32_t sender) {
  event found;
  const ::ssize_t got = ::recv(peers_[sender].events.get(), &found, sizeof found, 0);
  if (got < 0 && (would_block() || errno == EINTR)) return;
  if (got == 0 && left_[sender]) return;
  const auto bytes = static_cast<std::size_t>(std::max<::ssize_t>(got, 0));
  if (bytes < event_head_bytes || found.about >= size())
    give_up(sender, "it ended without a message");
  if (found.kind == event_kind::left) {
    left_[sender] = true;
    return;
  }
  if (found.kind == event_kind::asks) {
    tell(peers_[sender], event_kind::waits, waits_for_);
    return;
  }
  if (found.kind == event_kind::waits) {
    answer_ = found.about;
    return;
  }
  const std::string_view text(found.text.data(), bytes - event_head_bytes);
  give_up(found.about, printable(text, found.text.size()));
}

bool socket_group::poll_until(std::chrono::steady_clock::time_point until, int messages,
                              short direction) {
  for (;;) {
    std::vector<::pollfd> polled;
    for (std::uint32_t r = 0; r < size(); ++r) {
      const bool listens = r != rank_ && !left_[r];
      polled.push_back({listens ? peers_[r].events.get() : -1, POLLIN, 0});
    }
    polled.push_back({wake_.get(), POLLIN, 0});
    polled.push_back({messages, direction, 0});
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const int poll_time = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
    const int ready = ::poll(polled.data(), polled.size(), poll_time);
    if (ready < 0 && errno != EINTR) throw error(system_code(errno), name_of(waits_for_), {});
    check();
    // Events come before messages, because the messages of a failed rank are useless.
    for (std::uint32_t r = 0; r < size(); ++r) {
      if (polled[r].revents != 0) take_event(r);
    }
    if (polled.back().revents != 0 || answer_) return true;
    if (ready == 0) return false;
  }
}

std::uint32_t socket_group::last_awaited(std::uint32_t peer) {
  std::vector<bool> asked(size());
  for (;;) {
    asked[peer] = true;
    tell(peers_[peer], event_kind::asks, rank_);
    const bool answers = poll_until(std::chrono::steady_clock::now() + answer_time, -1, 0);
    const auto next = std::exchange(answer_, std::nullopt);
    if (!answers || !next || *next == rank_ || asked[*next]) return peer;
    peer = *next;
  }
}

void socket_group::wait_for(std::uint32_t peer, short direction) {
  waits_for_ = peer;
  const auto until = std::chrono::steady_clock::now() + timeout_;
  if (!poll_until(until, peers_[peer].messages.get(), direction)) {
    give_up(last_awaited(peer),
            "no message arrived within " + std::to_string(timeout_.count()) + " ms");
  }
  waits_for_ = rank_;
}

void socket_group::send(std::span<const std::byte> bytes, std::uint32_t to) {
  for (check(); !bytes.empty(); check()) {
    const ::ssize_t sent =
        ::send(peers_[to].messages.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (would_block()) {
      wait_for(to, POLLOUT);
    } else if (errno != EINTR) {
      take_event(to);  // Reports the rank's own reason if it sent one.
      give_up(to, "it has left the group");
    }
  }
}

void socket_group::receive(std::span<std::byte> bytes, std::uint32_t from) {
  for (check(); !bytes.empty(); check()) {
    const ::ssize_t got = ::recv(peers_[from].messages.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got < 0 && would_block()) {
      wait_for(from, POLLIN);
    } else if (got == 0 || errno != EINTR) {
      take_event(from);
      give_up(from, "it has left the group");
    }
  }
}

}  // namespace ringload::inline v0::detail
