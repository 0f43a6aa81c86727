// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which read the next free worker makes: awaited tensors first, then each load in turn, within a
// load in file order. Lives in the engine thread.

#include <cstdint>
#include <deque>
#include <memory>

#include "pipeline/on_thread.hpp"

namespace ringload::inline v0::detail {

class job;

class schedule {
 public:
  struct turn {
    std::shared_ptr<job> of;  // Null: there will be no more turns.
    std::uint32_t read = 0;
  };

  explicit schedule(boost::asio::io_context& loop) noexcept : waiting_(loop) {}

  void add(std::shared_ptr<job> one);
  // The load has reads that somebody awaits.
  void hurry(std::shared_ptr<job> one);
  // Workers that wait, and those that come, are sent home.
  void close();

  // Waits for a read to make.
  boost::asio::awaitable<turn> take();

 private:
  bool next(turn& out);

  std::deque<std::shared_ptr<job>> jobs_;     // Each once, while it has reads to take.
  std::deque<std::shared_ptr<job>> hurried_;  // Each at most once for each time it was hurried.
  waiting_line waiting_;
  bool closed_ = false;
};

}  // namespace ringload::inline v0::detail
