// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lets reads through as long as the drive is to have more of them: those that somebody awaits
// before all others, and otherwise in the order in which they came. Lives in the engine thread.

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <ringload/limits.hpp>

#include "pipeline/on_thread.hpp"
#include "pipeline/window.hpp"

namespace ringload::inline v0::detail {

class gate {
 public:
  gate(boost::asio::io_context& loop, const limits& within) noexcept;

  boost::asio::awaitable<void> enter(std::uint64_t bytes, bool awaited);
  void leave(std::uint64_t bytes);

  // At least one read is inside if any wants to be, however large it is. Any thread.
  std::uint64_t bytes_max() const noexcept { return found_ ? found_->bytes() : ordered_; }

 private:
  bool has_room_for(std::uint64_t bytes) const noexcept {
    return bytes_ == 0 || bytes_ + bytes <= bytes_max();
  }
  void let_in();

  waiting_line awaited_;
  waiting_line others_;
  const std::uint64_t ordered_;  // 0: it is to be found.
  std::optional<window> found_;
  // Of those inside. Above bytes_max() only if it is a single one, or if the window was wider.
  std::uint64_t bytes_ = 0;
};

}  // namespace ringload::inline v0::detail
