// SPDX-License-Identifier: Apache-2.0
#pragma once

// Implements `group` with two stream sockets between each pair of ranks (processes or threads). The
// sockets are Unix sockets or TCP sockets. The first socket transports messages. The second socket
// transports events, for example the event that a rank has failed or has left the group. If a
// process ends, the kernel closes its sockets, so the other ranks are notified immediately.
//
// If rank A waits for B, and B waits for C, then C causes the delay. When the deadline of A
// expires, A sends the event `asks` to B, and B replies with the event `waits`, which contains the
// rank C. Then A asks C, and so on. The error names the last rank of this chain.

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/group.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0::detail {

inline constexpr std::uint32_t ranks_max = 127;

inline std::string rank_name(std::uint32_t rank) { return "rank " + std::to_string(rank); }

// The sockets that connect a rank to another rank. Both sockets must be nonblocking.
struct rank_sockets {
  unique_fd messages;
  unique_fd events;
};

// An event. Only the used part of `text` is sent.
struct rank_event {
  enum class kind_of_event : std::uint32_t { failed, left, asks, waits };

  kind_of_event kind = kind_of_event::left;
  // In the event `failed`, the rank that failed first, which is not always the sender. In the event
  // `waits`, the rank for which the sender waits. If the sender does not wait, this is the sender.
  std::uint32_t rank = 0;
  std::uint32_t text_bytes = 0;
  std::array<char, 2000> text = {};
};

class socket_group final : public group {
 public:
  using event_kind = rank_event::kind_of_event;

  // `peers` is indexed by rank. The entry of this rank is empty. `wake` must be an eventfd.
  socket_group(std::uint32_t rank, std::vector<rank_sockets> peers, unique_fd wake,
               std::chrono::milliseconds timeout);
  ~socket_group() override;

  std::uint32_t rank() const noexcept override { return rank_; }
  std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(peers_.size()); }

  void send(std::span<const std::byte> bytes, std::uint32_t receiver) override;
  void receive(std::span<std::byte> bytes, std::uint32_t sender) override;
  void all_gather(std::span<const gathered_part> parts) override;
  void check_ranks() override;
  void fail(std::string_view reason) noexcept override;
  void interrupt() noexcept override;

 private:
  // Throws an error if the group has ended or this rank was interrupted.
  void check() const;
  // Send or receive as many bytes as possible without waiting, and return the number of these
  // bytes.
  std::size_t send_some(std::span<const std::byte> bytes, std::uint32_t receiver);
  std::size_t receive_some(std::span<std::byte> bytes, std::uint32_t sender);
  // The message socket of a peer, and whether this rank receives (POLLIN) or sends (POLLOUT).
  struct awaited_socket {
    std::uint32_t peer = 0;
    short direction = 0;
  };
  // Waits until one of the message sockets is ready. Throws if the group ends first. At the
  // deadline, ends the group and throws an error. The error names the rank that last_awaited()
  // returns for the first peer of `sockets`.
  void wait_for(std::span<const awaited_socket> sockets);
  // Receives the next bytes of an event. Returns false until the event is complete. Throws if the
  // connection has ended, unless the sender has left the group.
  bool receive_event(std::uint32_t sender);
  void take_event(std::uint32_t sender);
  // Ends the group because `peer` has closed its message socket. First waits for the last event of
  // `peer`, which contains the reason and may arrive after the close.
  [[noreturn]] void give_up_after_close(std::uint32_t peer);
  // Waits, and handles the events that arrive. Returns true when one of the sockets `awaited` is
  // ready, or when a reply to `asks` has arrived. Returns false at the deadline `until`.
  bool poll_until(std::chrono::steady_clock::time_point until, std::span<const ::pollfd> awaited);
  // Returns the last rank of the chain of waiting ranks that begins with `peer`.
  std::uint32_t last_awaited(std::uint32_t peer);
  [[noreturn]] void give_up(std::uint32_t because_of, const std::string& reason);
  void notify_all(event_kind kind, std::uint32_t about, std::string_view text) noexcept;

  const std::uint32_t rank_;
  const std::chrono::milliseconds timeout_;
  std::vector<rank_sockets> peers_;
  std::vector<bool> has_left_;  // Indexed by rank.
  struct partial_event {
    rank_event content;
    std::size_t bytes = 0;
  };
  std::vector<partial_event> events_;  // Indexed by rank.
  std::optional<error> ended_;         // Every later call throws this error.
  std::uint32_t waits_for_;            // First peer of the current wait_for(), else rank_.
  // Reply to an event `asks`: the rank for which the peer waits.
  std::optional<std::uint32_t> reply_;

  // The members below may be used by any thread.
  const unique_fd wake_;  // Made readable by interrupt().
  std::atomic<bool> interrupted_ = false;
};

// Creates an eventfd that a group can wait for.
result<unique_fd> new_wake();
// Makes the eventfd readable. May be called from any thread.
void wake_up(const unique_fd& wake) noexcept;

// Creates two pairs of connected Unix sockets for two ranks. Each element of the result belongs to
// one of the ranks.
result<std::array<rank_sockets, 2>> make_rank_sockets();

// Creates the sockets between all pairs of ranks. The result is indexed by rank, then by peer.
result<std::vector<std::vector<rank_sockets>>> all_sockets(std::uint32_t ranks);

}  // namespace ringload::inline v0::detail
