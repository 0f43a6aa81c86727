// SPDX-License-Identifier: Apache-2.0
#pragma once

// A group whose ranks have two sockets to each other rank: a stream of the messages, and packets
// that say that the rank has failed, or has left. What ends a process closes its sockets, so that
// the others know at once.
//
// A rank whose time limit is over asks the rank that it waits for which rank that one waits for,
// and so on. The last of them is the one that did not come.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ringload/group.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/fault.hpp"
#include "core/unique_fd.hpp"

namespace ringload::inline v0::detail {

inline constexpr std::uint32_t ranks_max = 127;

struct rank_sockets {
  unique_fd messages;
  unique_fd events;
};

class socket_group final : public group {
 public:
  enum class event_kind : std::uint32_t { failed, left, asks, waits };

  // By rank; empty for this one. `wake` is an eventfd.
  socket_group(std::uint32_t rank, std::vector<rank_sockets> others, unique_fd wake,
               std::chrono::milliseconds timeout);
  ~socket_group() override;

  std::uint32_t rank() const noexcept override { return rank_; }
  std::uint32_t size() const noexcept override {
    return static_cast<std::uint32_t>(others_.size());
  }

  void send(std::span<const std::byte> bytes, std::uint32_t to) override;
  void receive(std::span<std::byte> bytes, std::uint32_t from) override;
  void fail(std::string_view reason) noexcept override;
  void interrupt() noexcept override;

 private:
  // Throws what has ended the group, or this rank's part in it.
  void check() const;
  // Returns when the rank's messages can go on; throws what has ended the group.
  void wait_for(std::uint32_t other, short direction);
  void take_event(std::uint32_t of);
  // False when `until` has come, before the socket `messages` is ready or an answer is there.
  bool poll_until(std::chrono::steady_clock::time_point until, int messages, short direction);
  // The rank that `other` waits for in the end, or itself.
  std::uint32_t last_awaited(std::uint32_t other);
  [[noreturn]] void give_up(std::uint32_t because_of, const std::string& reason);
  void tell_all(event_kind kind, std::uint32_t about, std::string_view text) noexcept;

  const std::uint32_t rank_;
  const std::chrono::milliseconds timeout_;
  std::vector<rank_sockets> others_;
  std::vector<bool> left_;
  std::optional<error> ended_;           // What every call fails with.
  std::uint32_t waits_for_;              // This rank itself: for none.
  std::optional<std::uint32_t> answer_;  // Whom the rank that was asked waits for.

  // Of any thread.
  const unique_fd wake_;  // Readable once this rank was interrupted.
  std::atomic<bool> interrupted_ = false;
};

// An eventfd, and what makes it readable: from any thread.
result<unique_fd> new_wake();
void wake_up(const unique_fd& wake) noexcept;

// The sockets between `ranks` ranks, by rank and other rank.
result<std::vector<std::vector<rank_sockets>>> all_sockets(std::uint32_t ranks);

}  // namespace ringload::inline v0::detail
