// SPDX-License-Identifier: Apache-2.0

#include "ranks/socket_group.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "base/bounded_timeout.hpp"
#include "base/printable.hpp"
#include "base/retry_allocation.hpp"
#include "ranks/ring_pieces.hpp"

namespace ringload::inline v0::detail {

namespace {

// The pieces of a ring are small, because each rank delays the bytes by the time of one piece.
constexpr std::size_t ring_piece_bytes = std::size_t{1} << 17;

constexpr std::size_t event_head_bytes = offsetof(rank_event, text);

// Time limit for the reply to an event `asks`. Also the time limit for the last event of a rank
// that has closed its message socket. A rank that waits in a call replies immediately.
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
      timeout_(detail::bounded_timeout(timeout)),
      peers_(std::move(peers)),
      has_left_(peers_.size()),
      events_(peers_.size()),
      waits_for_(rank),
      wake_(std::move(wake)) {}

socket_group::~socket_group() {
  if (!ended_) notify_all(event_kind::left, rank_, {});
  // Receives and discards all pending events. If a TCP socket is closed while bytes are unread, the
  // kernel resets the connection. The reset can discard the event that was just sent.
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
  (void)poll_until(std::chrono::steady_clock::now(), {});
}

// Ends the group. Reports the failure to all ranks, because other ranks may not know of the failure
// yet.
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
    // The sender closed its Unix socket before it had received all events from this rank. In this
    // case recv() fails once with ECONNRESET, and then returns the events that the sender has sent.
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
  const ::pollfd event = {peers_[peer].events.get(), POLLIN, 0};
  while (!has_left_[peer] && poll_until(until, {&event, 1})) {
  }
  give_up(peer, "it has left the group");
}

bool socket_group::poll_until(std::chrono::steady_clock::time_point until,
                              std::span<const ::pollfd> awaited) {
  for (;;) {
    std::vector<::pollfd> polled;
    for (std::uint32_t r = 0; r < size(); ++r) {
      const bool is_present = r != rank_ && !has_left_[r];
      polled.push_back({is_present ? peers_[r].events.get() : -1, POLLIN, 0});
    }
    polled.push_back({wake_.get(), POLLIN, 0});
    polled.insert(polled.end(), awaited.begin(), awaited.end());
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
    const auto awaited_now = std::span(polled).last(awaited.size());
    const auto is_ready = [](const ::pollfd& socket) { return socket.revents != 0; };
    if (std::ranges::any_of(awaited_now, is_ready) || reply_) return true;
    if (ready == 0) return false;
  }
}

std::uint32_t socket_group::last_awaited(std::uint32_t peer) {
  std::vector<bool> asked(size());
  for (;;) {
    asked[peer] = true;
    send_event(peers_[peer], event_kind::asks, rank_);
    const bool answers = poll_until(std::chrono::steady_clock::now() + reply_timeout, {});
    const auto next = std::exchange(reply_, std::nullopt);
    if (!answers || !next || *next == rank_ || asked[*next]) return peer;
    peer = *next;
  }
}

void socket_group::wait_for(std::span<const awaited_socket> sockets) {
  const std::uint32_t peer = sockets.front().peer;
  std::vector<::pollfd> polled;
  for (const auto& [rank, direction] : sockets)
    polled.push_back({peers_[rank].messages.get(), direction, 0});
  waits_for_ = peer;
  const auto until = std::chrono::steady_clock::now() + timeout_;
  if (!poll_until(until, polled)) {
    give_up(last_awaited(peer),
            "no message arrived within " + std::to_string(timeout_.count()) + " ms");
  }
  waits_for_ = rank_;
}

std::size_t socket_group::send_some(std::span<const std::byte> bytes, std::uint32_t receiver) {
  for (;;) {
    const ::ssize_t sent =
        ::send(peers_[receiver].messages.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) return static_cast<std::size_t>(sent);
    if (would_block()) return 0;
    if (errno != EINTR) give_up_after_close(receiver);
  }
}

std::size_t socket_group::receive_some(std::span<std::byte> bytes, std::uint32_t sender) {
  for (;;) {
    const ::ssize_t got = ::recv(peers_[sender].messages.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got < 0 && would_block()) return 0;
    if (got == 0 || errno != EINTR) give_up_after_close(sender);
  }
}

void socket_group::send(std::span<const std::byte> bytes, std::uint32_t receiver) {
  const awaited_socket socket = {receiver, POLLOUT};
  for (check(); !bytes.empty(); check()) {
    const std::size_t sent = send_some(bytes, receiver);
    bytes = bytes.subspan(sent);
    if (sent == 0) wait_for({&socket, 1});
  }
}

void socket_group::receive(std::span<std::byte> bytes, std::uint32_t sender) {
  const awaited_socket socket = {sender, POLLIN};
  for (check(); !bytes.empty(); check()) {
    const std::size_t got = receive_some(bytes, sender);
    bytes = bytes.subspan(got);
    if (got == 0) wait_for({&socket, 1});
  }
}

void socket_group::all_gather(std::span<const gathered_part> parts) {
  // broadcast() sends few bytes along a tree, which takes less time than a ring.
  if (parts.size() == 1) return broadcast(parts.front().bytes, parts.front().root);
  const ring_pieces ring = ring_pieces_of(parts, rank_, size(), ring_piece_bytes);
  const std::uint32_t next = (rank_ + 1) % size();
  const std::uint32_t previous = (rank_ + size() - 1) % size();
  // A piece that is not complete, and the number of its bytes that are transferred.
  struct position {
    std::size_t piece = 0;
    std::size_t bytes = 0;
  };
  position received = {ring.receive_begin, 0};
  position sent = {};
  const auto rest_of = [&](const position& current) {
    return ring.pieces[current.piece].subspan(current.bytes);
  };
  const auto advance = [&](position& current, std::size_t bytes) {
    current.bytes += bytes;
    if (current.bytes == ring.pieces[current.piece].size()) current = {current.piece + 1, 0};
  };
  for (check(); received.piece < ring.pieces.size() || sent.piece < ring.send_end; check()) {
    std::vector<awaited_socket> awaited;
    if (received.piece < ring.pieces.size()) {
      const std::size_t got = receive_some(rest_of(received), previous);
      advance(received, got);
      if (got == 0) awaited.push_back({previous, POLLIN});
    }
    const bool can_receive = awaited.empty() && received.piece < ring.pieces.size();
    if (sent.piece < std::min(ring.send_end, received.piece)) {
      const std::size_t bytes = send_some(rest_of(sent), next);
      advance(sent, bytes);
      if (bytes > 0) continue;
      awaited.push_back({next, POLLOUT});
    }
    if (!can_receive && !awaited.empty()) wait_for(awaited);
  }
}

}  // namespace ringload::inline v0::detail
