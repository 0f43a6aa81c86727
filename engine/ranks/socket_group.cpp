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

#include "formats/printable.hpp"

namespace ringload::inline v0::detail {

namespace {

// What a packet of events is; of the text only as much as there is.
struct event {
  socket_group::event_kind kind = socket_group::event_kind::left;
  std::uint32_t about =
      0;  // The rank that has failed first, which may be another than who says so.
  std::array<char, 2000> text = {};
};
constexpr std::size_t event_head_bytes = offsetof(event, text);

std::string name_of(std::uint32_t rank) { return "rank " + std::to_string(rank); }

// How long a rank that is asked may take: it answers at once if it waits in a call.
constexpr std::chrono::seconds answer_time{1};

void tell(const rank_sockets& to, socket_group::event_kind kind, std::uint32_t about) noexcept {
  const event packet = {kind, about, {}};
  (void)::send(to.events.get(), &packet, event_head_bytes, MSG_NOSIGNAL);
}

bool would_block() noexcept { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

result<unique_fd> new_wake() {
  unique_fd made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made) return fault{system_code(errno), "group"};
  return made;
}

void wake_up(const unique_fd& wake) noexcept {
  const std::uint64_t one = 1;
  (void)::write(wake.get(), &one, sizeof one);
}

result<std::vector<std::vector<rank_sockets>>> all_sockets(std::uint32_t ranks) {
  std::vector<std::vector<rank_sockets>> all(ranks);
  for (auto& each : all) each.resize(ranks);
  for (std::uint32_t a = 0; a < ranks; ++a) {
    for (std::uint32_t b = a + 1; b < ranks; ++b) {
      for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
        std::array<int, 2> ends = {};
        if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
          return fault{system_code(errno), "group"};
        }
        unique_fd rank_sockets::* const which =
            type == SOCK_STREAM ? &rank_sockets::messages : &rank_sockets::events;
        all[a][b].*which = unique_fd(ends[0]);
        all[b][a].*which = unique_fd(ends[1]);
      }
    }
  }
  return all;
}

socket_group::socket_group(std::uint32_t rank, std::vector<rank_sockets> others, unique_fd wake,
                           std::chrono::milliseconds timeout)
    : rank_(rank),
      timeout_(timeout),
      others_(std::move(others)),
      left_(others_.size()),
      waits_for_(rank),
      wake_(std::move(wake)) {}

socket_group::~socket_group() {
  if (!ended_) tell_all(event_kind::left, rank_, {});
}

void socket_group::tell_all(event_kind kind, std::uint32_t about, std::string_view text) noexcept {
  event all = {kind, about, {}};
  const std::size_t bytes = std::min(text.size(), all.text.size());
  std::copy_n(text.begin(), bytes, all.text.begin());
  for (const rank_sockets& each : others_) {
    if (!each.events) continue;
    (void)::send(each.events.get(), &all, event_head_bytes + bytes, MSG_NOSIGNAL);
  }
}

void socket_group::fail(std::string_view reason) noexcept {
  if (ended_) return;
  tell_all(event_kind::failed, rank_, reason);
  try {
    ended_.emplace(errc::rank_failed, name_of(rank_), std::string(reason));
  } catch (const std::bad_alloc&) {
    ended_.emplace(errc::rank_failed, std::string(), std::string());  // Allocates nothing.
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

// The others may hear of it from this rank first.
void socket_group::give_up(std::uint32_t because_of, const std::string& reason) {
  tell_all(event_kind::failed, because_of, reason);
  ended_.emplace(errc::rank_failed, name_of(because_of), reason);
  throw *ended_;
}

void socket_group::take_event(std::uint32_t of) {
  event found;
  const ::ssize_t got = ::recv(others_[of].events.get(), &found, sizeof found, 0);
  if (got < 0 && (would_block() || errno == EINTR)) return;
  if (got == 0 && left_[of]) return;
  const auto bytes = static_cast<std::size_t>(std::max<::ssize_t>(got, 0));
  if (bytes < event_head_bytes || found.about >= size()) give_up(of, "it has ended without a word");
  if (found.kind == event_kind::left) {
    left_[of] = true;
    return;
  }
  if (found.kind == event_kind::asks) {
    tell(others_[of], event_kind::waits, waits_for_);
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
    std::vector<::pollfd> all;
    for (std::uint32_t r = 0; r < size(); ++r) {
      const bool listens = r != rank_ && !left_[r];
      all.push_back({listens ? others_[r].events.get() : -1, POLLIN, 0});
    }
    all.push_back({wake_.get(), POLLIN, 0});
    all.push_back({messages, direction, 0});
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const int most = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30));
    const int ready = ::poll(all.data(), all.size(), most);
    if (ready < 0 && errno != EINTR) throw error(system_code(errno), name_of(waits_for_), {});
    check();
    // Before messages: those that a rank sent before it failed are of no use any more.
    for (std::uint32_t r = 0; r < size(); ++r) {
      if (all[r].revents != 0) take_event(r);
    }
    if (all.back().revents != 0 || answer_) return true;
    if (ready == 0) return false;
  }
}

std::uint32_t socket_group::last_awaited(std::uint32_t other) {
  std::vector<bool> asked(size());
  for (;;) {
    asked[other] = true;
    tell(others_[other], event_kind::asks, rank_);
    const bool answers = poll_until(std::chrono::steady_clock::now() + answer_time, -1, 0);
    const auto next = std::exchange(answer_, std::nullopt);
    if (!answers || !next || *next == rank_ || asked[*next]) return other;
    other = *next;
  }
}

void socket_group::wait_for(std::uint32_t other, short direction) {
  waits_for_ = other;
  const auto until = std::chrono::steady_clock::now() + timeout_;
  if (!poll_until(until, others_[other].messages.get(), direction)) {
    give_up(last_awaited(other),
            "it did not come within " + std::to_string(timeout_.count()) + " ms");
  }
  waits_for_ = rank_;
}

void socket_group::send(std::span<const std::byte> bytes, std::uint32_t to) {
  for (check(); !bytes.empty(); check()) {
    const ::ssize_t sent =
        ::send(others_[to].messages.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (would_block()) {
      wait_for(to, POLLOUT);
    } else if (errno != EINTR) {
      take_event(to);  // Its reason, if there is one.
      give_up(to, "it has left the group");
    }
  }
}

void socket_group::receive(std::span<std::byte> bytes, std::uint32_t from) {
  for (check(); !bytes.empty(); check()) {
    const ::ssize_t got = ::recv(others_[from].messages.get(), bytes.data(), bytes.size(), 0);
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
