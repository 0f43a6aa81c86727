// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whose turn it is: what somebody awaits first, then each load in turn. So reads are handed to the
// workers, and tensors to those who hash them. Lives in the engine thread.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "pipeline/wait_queue.hpp"

namespace ringload::inline v0::detail {

class job;

class schedule {
 public:
  struct turn {
    std::shared_ptr<job> of;  // Null: there will be no more turns.
    std::uint32_t what = 0;   // The read, or the tensor.
    bool awaited = false;
  };

  // What a load has to be done next; empty where it has nothing now.
  using take_function = std::optional<std::uint32_t> (job::*)();

  schedule(boost::asio::io_context& loop, take_function awaited, take_function in_turn) noexcept
      : take_awaited_(awaited), take_in_turn_(in_turn), waiting_(loop) {}

  // The load has something to be done; or something that somebody awaits.
  void add(const std::shared_ptr<job>& one);
  void prioritize(const std::shared_ptr<job>& one);
  // Those who wait for a turn, and those who come, are sent home.
  void close();

  // Waits for something to do.
  boost::asio::awaitable<turn> take();

 private:
  using job_queue = std::deque<std::shared_ptr<job>>;  // Each once, until it has nothing.

  bool next(job_queue& of, take_function how, turn& out);
  bool next(turn& out);

  const take_function take_awaited_;
  const take_function take_in_turn_;
  job_queue urgent_;
  job_queue jobs_;
  wait_queue waiting_;
  bool closed_ = false;
};

}  // namespace ringload::inline v0::detail
