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
#include "base/retry_allocation.hpp"

namespace ringload::inline v0::detail {

namespace {

constexpr std::size_t event_head_bytes = offsetof(rank_event, text);

// Time limit for the reply to an event `asks`, and for the last event of a rank that has closed its
// message socket. A rank that waits in a call replies immediately.
constexpr std::chrono::seconds reply_timeout{1};

void send_event(const rank_sockets& peer, socket_group::event_kind kind,
                std::uint32_t rank) noexcept {
  const rank_event content = {kind, rank, 0, {}};
  (void)::send(peer.events.get(), &content, event_head_bytes, MSG_NOSIGNAL);
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

result<std::array<rank_sockets, 2>> make_rank_sockets() {
  std::array<rank_sockets, 2> sockets;
  for (unique_fd rank_sockets::* const member : {&rank_sockets::messages, &rank_sockets::events}) {
    std::array<int, 2> ends = {};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
      return fault{system_code(errno), "group"};
    }
    sockets[0].*member = unique_fd(ends[0]);
    sockets[1].*member = unique_fd(ends[1]);
  }
  return sockets;
}

result<std::vector<std::vector<rank_sockets>>> all_sockets(std::uint32_t ranks) {
  std::vector<std::vector<rank_sockets>> sockets(ranks);
  for (auto& row : sockets) row.resize(ranks);
  for (std::uint32_t a = 0; a < ranks; ++a) {
    for (std::uint32_t b = a + 1; b < ranks; ++b) {
      auto pair = make_rank_sockets();
      if (!pair) return pair.error();
      sockets[a][b] = std::move((*pair)[0]);
      sockets[b][a] = std::move((*pair)[1]);
    }
  }
  return sockets;
}

socket_group::socket_group(std::uint32_t rank, std::vector<rank_sockets> peers, unique_fd wake,
                           std::chrono::milliseconds timeout)
    : rank_(rank),
      timeout_(timeout),
      peers_(std::move(peers)),
      has_left_(peers_.size()),
      events_(peers_.size()),
      waits_for_(rank),
      wake_(std::move(wake)) {}

socket_group::~socket_group() {
  if (!ended_) notify_all(event_kind::left, rank_, {});
  // Receives all pending events. If a connection is closed while bytes are unread, TCP resets the
  // connection, which can discard the event that was just sent.
  std::array<std::byte, 256> discarded = {};
  for (const rank_sockets& peer : peers_) {
    if (!peer.events) continue;
    while (::recv(peer.events.get(), discarded.data(), discarded.size(), 0) > 0) {
    }
  }
}

void socket_group::notify_all(event_kind kind, std::uint32_t about,
                              std::string_view text) noexcept {
  rank_event content = {kind, about, 0, {}};
  const std::size_t bytes = std::min(text.size(), content.text.size());
  content.text_bytes = static_cast<std::uint32_t>(bytes);
  std::copy_n(text.begin(), bytes, content.text.begin());
  for (const rank_sockets& peer : peers_) {
    if (!peer.events) continue;
    (void)::send(peer.events.get(), &content, event_head_bytes + bytes, MSG_NOSIGNAL);
  }
}

void socket_group::fail(std::string_view reason) noexcept {
  if (ended_) return;
  notify_all(event_kind::failed, rank_, reason);
  retry_allocation(
      [&] { ended_.emplace(errc::rank_failed, rank_name(rank_), std::string(reason)); });
}

void socket_group::interrupt() noexcept {
  interrupted_ = true;
  wake_up(wake_);
}

void socket_group::check() const {
  if (ended_) throw *ended_;
  if (interrupted_) throw error(system_code(ECANCELED), "group", "interrupted");
}

void socket_group::check_ranks() {
  check();
  (void)poll_until(std::chrono::steady_clock::now(), -1, 0);
}

// Ends the group. Reports the failure to all ranks, because some ranks may not have received a
// report yet.
void socket_group::give_up(std::uint32_t because_of, const std::string& reason) {
  notify_all(event_kind::failed, because_of, reason);
  ended_.emplace(errc::rank_failed, rank_name(because_of), reason);
  throw *ended_;
}

bool socket_group::receive_event(std::uint32_t sender) {
  auto& [content, bytes] = events_[sender];
  for (bool was_reset = false;;) {
    const std::size_t event_bytes =
        bytes < event_head_bytes ? event_head_bytes : event_head_bytes + content.text_bytes;
    if (bytes == event_bytes) break;
    auto* const begin = reinterpret_cast<std::byte*>(&content);
    const ::ssize_t got =
        ::recv(peers_[sender].events.get(), begin + bytes, event_bytes - bytes, 0);
    if (got < 0 && (would_block() || errno == EINTR)) return false;
    // The sender closed its Unix socket before the sender had read all events. The kernel returns
    // ECONNRESET once. Afterwards, recv() returns the events that the sender has sent.
    if (got < 0 && errno == ECONNRESET && !std::exchange(was_reset, true)) continue;
    if (got <= 0 && has_left_[sender]) return false;
    if (got == 0 || (got < 0 && errno == ECONNRESET)) give_up(sender, "it ended without a message");
    if (got < 0) give_up(sender, "its connection failed: " + system_code(errno).message());
    bytes += static_cast<std::size_t>(got);
    if (bytes == event_head_bytes &&
        (content.text_bytes > content.text.size() || content.rank >= size())) {
      give_up(sender, "it sent an invalid event");
    }
  }
  bytes = 0;
  return true;
}

void socket_group::take_event(std::uint32_t sender) {
  if (!receive_event(sender)) return;
  const rank_event& found = events_[sender].content;
  switch (found.kind) {
    case event_kind::left: has_left_[sender] = true; return;
    case event_kind::asks: send_event(peers_[sender], event_kind::waits, waits_for_); return;
    case event_kind::waits: reply_ = found.rank; return;
    case event_kind::failed: break;
  }
  const std::string_view text(found.text.data(), found.text_bytes);
  give_up(found.rank, printable(text, found.text.size()));
}

void socket_group::give_up_after_close(std::uint32_t peer) {
  const auto until = std::chrono::steady_clock::now() + reply_timeout;
  while (!has_left_[peer] && poll_until(until, peers_[peer].events.get(), POLLIN)) {
  }
  give_up(peer, "it has left the group");
}

bool socket_group::poll_until(std::chrono::steady_clock::time_point until, int messages,
                              short direction) {
  for (;;) {
    std::vector<::pollfd> polled;
    for (std::uint32_t r = 0; r < size(); ++r) {
      const bool is_present = r != rank_ && !has_left_[r];
      polled.push_back({is_present ? peers_[r].events.get() : -1, POLLIN, 0});
    }
    polled.push_back({wake_.get(), POLLIN, 0});
    polled.push_back({messages, direction, 0});
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const int poll_time = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
    const int ready = ::poll(polled.data(), polled.size(), poll_time);
    if (ready < 0 && errno != EINTR) throw error(system_code(errno), rank_name(waits_for_), {});
    check();
    // Events are handled first, because messages are ignored if a rank has failed.
    for (std::uint32_t r = 0; r < size(); ++r) {
      if (polled[r].revents != 0) take_event(r);
    }
    if (polled.back().revents != 0 || reply_) return true;
    if (ready == 0) return false;
  }
}

std::uint32_t socket_group::last_awaited(std::uint32_t peer) {
  std::vector<bool> asked(size());
  for (;;) {
    asked[peer] = true;
    send_event(peers_[peer], event_kind::asks, rank_);
    const bool answers = poll_until(std::chrono::steady_clock::now() + reply_timeout, -1, 0);
    const auto next = std::exchange(reply_, std::nullopt);
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
      give_up_after_close(to);
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
      give_up_after_close(from);
    }
  }
}

}  // namespace ringload::inline v0::detail
