// SPDX-License-Identifier: Apache-2.0
#pragma once

// A group whose ranks are connected by two sockets per pair: a stream for messages, and packets
// that report that a rank has failed or left. The sockets of a process close when it ends, so the
// other ranks learn that at once.
//
// A rank whose deadline has passed asks the rank that it waits for which rank that rank waits for,
// and so on. The last rank of this chain is the one that did not come.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/group.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.hpp"
#include "base/unique_fd.hpp"

namespace ringload::inline v0::detail {

inline constexpr std::uint32_t ranks_max = 127;

struct rank_sockets {
  unique_fd messages;
  unique_fd events;
};

class socket_group final : public group {
 public:
  enum class event_kind : std::uint32_t { failed, left, asks, waits };

  // `peers` is indexed by rank, with an empty entry for this rank. `wake` must be an eventfd.
  socket_group(std::uint32_t rank, std::vector<rank_sockets> peers, unique_fd wake,
               std::chrono::milliseconds timeout);
  ~socket_group() override;

  std::uint32_t rank() const noexcept override { return rank_; }
  std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(peers_.size()); }

  void send(std::span<const std::byte> bytes, std::uint32_t to) override;
  void receive(std::span<std::byte> bytes, std::uint32_t from) override;
  void fail(std::string_view reason) noexcept override;
  void interrupt() noexcept override;

 private:
  // Throws the error that has ended the group or interrupted this rank.
  void check() const;
  // Returns when the rank's message socket is ready; throws the error that has ended the group.
  void wait_for(std::uint32_t peer, short direction);
  void take_event(std::uint32_t sender);
  // Returns false at the deadline `until` if neither the socket `messages` is ready nor an answer
  // has arrived.
  bool poll_until(std::chrono::steady_clock::time_point until, int messages, short direction);
  // Returns the last rank of the chain of waiting ranks that begins with `peer`.
  std::uint32_t last_awaited(std::uint32_t peer);
  [[noreturn]] void give_up(std::uint32_t because_of, const std::string& reason);
  void notify_all(event_kind kind, std::uint32_t about, std::string_view text) noexcept;

  const std::uint32_t rank_;
  const std::chrono::milliseconds timeout_;
  std::vector<rank_sockets> peers_;
  std::vector<bool> left_;
  std::optional<error> ended_;           // The error of every further call.
  std::uint32_t waits_for_;              // This rank itself: it waits for no rank.
  std::optional<std::uint32_t> answer_;  // The rank that the asked rank waits for.

  // Used by any thread.
  const unique_fd wake_;  // Readable after this rank was interrupted.
  std::atomic<bool> interrupted_ = false;
};

// An eventfd, and a thread-safe function that makes it readable.
result<unique_fd> new_wake();
void wake_up(const unique_fd& wake) noexcept;

// Creates the sockets between `ranks` ranks, indexed by rank and peer.
result<std::vector<std::vector<rank_sockets>>> all_sockets(std::uint32_t ranks);

}  // namespace ringload::inline v0::detail
