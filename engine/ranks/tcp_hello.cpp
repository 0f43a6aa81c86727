// SPDX-License-Identifier: Apache-2.0

#include "ranks/tcp_hello.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace ringload::inline v0::detail {

namespace {

// Maximum number of connections whose hello is not complete. A group of 127 ranks needs up to 252
// of these connections.
constexpr std::size_t partial_hellos_max = 512;

bool must_retry(int error_number) noexcept {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

fault connection_failure(int error_number) {
  if (error_number != ECONNRESET && error_number != EPIPE) return {system_code(error_number), ""};
  return {errc::rank_failed, "", "it has ended or refused this rank"};
}

}  // namespace

result<void> send_all(const rendezvous& joining, const unique_fd& socket,
                      std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (!must_retry(errno)) return connection_failure(errno);
    if (auto ready = await_ready(joining, socket.get(), POLLOUT, joining.deadline); !ready) {
      return ready;
    }
  }
  return {};
}

result<void> receive_all(const rendezvous& joining, const unique_fd& socket,
                         std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
      continue;
    }
    if (got == 0) return connection_failure(ECONNRESET);
    if (!must_retry(errno)) return connection_failure(errno);
    if (auto ready = await_ready(joining, socket.get(), POLLIN, joining.deadline); !ready) {
      return ready;
    }
  }
  return {};
}

result<arrival> hello_queue::next(const std::vector<member>& members) {
  for (;;) {
    std::vector<::pollfd> polled = {{listening_.get(), POLLIN, 0},
                                    {joining_.wake.get(), POLLIN, 0}};
    for (const partial_hello& entry : partial_hellos_) {
      polled.push_back({entry.connection.get(), POLLIN, 0});
    }
    for (const member& peer : members) polled.push_back({peer.connection.get(), POLLIN, 0});
    const int wait_ms = static_cast<int>(time_left(joining_.deadline).count());
    const int ready = ::poll(polled.data(), polled.size(), wait_ms);
    if (ready < 0 && errno != EINTR) return fault{system_code(errno), ""};
    if (ready < 0) continue;
    if (polled[1].revents != 0) return joining_cancelled();
    if (ready == 0 || std::chrono::steady_clock::now() >= joining_.deadline) {
      return fault{system_code(ETIMEDOUT), ""};
    }
    const std::size_t first_member = 2 + partial_hellos_.size();
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      if (polled[first_member + rank].revents == 0) continue;
      return fault{errc::rank_failed, rank_name(static_cast<std::uint32_t>(rank)),
                   "it ended before all ranks had joined"};
    }
    if (auto complete = receive_hellos(std::span(polled).subspan(2))) {
      return std::move(*complete);
    }
    if (polled[0].revents != 0) {
      if (auto accepted = accept_connection(); !accepted) return accepted.error();
    }
  }
}

std::optional<arrival> hello_queue::receive_hellos(std::span<const ::pollfd> polled) {
  for (std::size_t i = partial_hellos_.size(); i-- > 0;) {
    if (polled[i].revents == 0) continue;
    partial_hello& entry = partial_hellos_[i];
    const auto rest = bytes_in(entry.hello).subspan(entry.bytes);
    const ::ssize_t got = ::recv(entry.connection.get(), rest.data(), rest.size(), 0);
    if (got < 0 && must_retry(errno)) continue;
    if (got > 0) entry.bytes += static_cast<std::size_t>(got);
    const bool is_complete = entry.bytes == sizeof(tcp_hello);
    if (got > 0 && !is_complete) continue;
    std::optional<arrival> complete;
    if (is_complete && entry.hello.magic == tcp_magic) {
      complete = arrival{entry.hello, std::move(entry.connection)};
    }
    partial_hellos_.erase(partial_hellos_.begin() + static_cast<std::ptrdiff_t>(i));
    if (complete) return complete;
  }
  return std::nullopt;
}

result<void> hello_queue::accept_connection() {
  unique_fd connection(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection && is_temporary(errno)) return {};
  // Closes the oldest connection, whose hello is the least likely to become complete.
  const auto close_oldest = [&] { partial_hellos_.erase(partial_hellos_.begin()); };
  if (!connection && (errno == EMFILE || errno == ENFILE) && !partial_hellos_.empty()) {
    close_oldest();
    return {};  // The next call of poll() reports the same connection again.
  }
  if (!connection) return fault{system_code(errno), ""};
  if (partial_hellos_.size() == partial_hellos_max) close_oldest();
  partial_hellos_.push_back({std::move(connection), {}, 0});
  return {};
}

}  // namespace ringload::inline v0::detail
