// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides which step is carried out next: awaited steps first, then steps of add() round-robin,
// then steps of add_last(). Engine thread only.

#include <cstdint>
#include <deque>
#include <memory>

#include "runtime/wait_queue.hpp"
#include "runtime/work.hpp"

namespace ringload::inline v0::detail {

class schedule {
 public:
  struct turn {
    std::shared_ptr<work> owner;  // Null: the schedule is closed.
    std::uint32_t step = 0;
    bool awaited = false;
  };

  explicit schedule(boost::asio::io_context& loop) : waiting_(loop) {}

  // Adds work that has steps.
  void add(const std::shared_ptr<work>& owner);
  // Adds work that has awaited steps.
  void prioritize(const std::shared_ptr<work>& owner);
  // Adds work whose steps are taken only when no other work has a step.
  void add_last(const std::shared_ptr<work>& owner);
  // A drive can take a further step, or several further steps.
  void has_room() { waiting_.wake_one(); }
  void has_more_room() { waiting_.wake_all(); }
  // After close(), take() returns turns without an owner.
  void close();

  // Waits until a step can be taken.
  boost::asio::awaitable<turn> take();

 private:
  using work_queue =
      std::deque<std::shared_ptr<work>>;  // Contains each work once, while it has steps.

  void add_to(work_queue& queue, const std::shared_ptr<work>& owner);
  static bool take_from(work_queue& queue, bool awaited, turn& found);
  bool next(turn& found);

  work_queue urgent_;
  work_queue ready_;
  work_queue last_;
  wait_queue waiting_;
  bool closed_ = false;
};

}  // namespace ringload::inline v0::detail
