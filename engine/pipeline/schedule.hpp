// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides what is done next, of all loads and saves: what is awaited first, then round-robin over
// the loads, and writes of saves where no load has a read. One schedule hands reads and writes to
// the workers, another tensors to the checkers. Engine thread only.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "pipeline/wait_queue.hpp"

namespace ringload::inline v0::detail {

class job;
class save_job;
struct write_group;

class schedule {
 public:
  struct turn {
    std::shared_ptr<job> of;         // Of a load; or
    std::shared_ptr<save_job> save;  // of a save. Both null: the schedule is closed.
    std::uint32_t what = 0;          // Index of the read or tensor; of the write in its group.
    bool awaited = false;
    std::shared_ptr<write_group> group;  // Of a write.
  };

  // A load's next read or tensor.
  struct taken {
    std::optional<std::uint32_t> what;  // Empty: it has none now,
    bool later = false;                 // or has some when its drive has room again.
  };
  using take_function = taken (job::*)();

  schedule(boost::asio::io_context& loop, take_function awaited, take_function in_turn)
      : take_awaited_(awaited), take_in_turn_(in_turn), waiting_(loop) {}

  // The load has something to take; something that is awaited.
  void add(const std::shared_ptr<job>& one);
  void prioritize(const std::shared_ptr<job>& one);
  // The save has something to write.
  void add(const std::shared_ptr<save_job>& one);
  // A drive has room again, for one read or for many.
  void has_room() { waiting_.wake_one(); }
  void has_more_room() { waiting_.wake_all(); }
  // take() returns null turns from now on.
  void close();

  // Waits until there is something to take.
  boost::asio::awaitable<turn> take();

 private:
  using job_queue = std::deque<std::shared_ptr<job>>;  // Each load once, until it has nothing left.

  bool next(job_queue& of, take_function how, turn& out);
  bool next_write(turn& out);
  bool next(turn& out);

  const take_function take_awaited_;
  const take_function take_in_turn_;
  job_queue urgent_;
  job_queue jobs_;
  std::deque<std::shared_ptr<save_job>> saves_;  // As in a job_queue.
  wait_queue waiting_;
  bool closed_ = false;
};

}  // namespace ringload::inline v0::detail
