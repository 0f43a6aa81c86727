// SPDX-License-Identifier: Apache-2.0
#pragma once

// Decides which step a worker (see worker.hpp) carries out next. A step is one read or check of a
// load, or one write of a save. Steps that a caller waits for are taken first. The steps of work
// that add() has added are next, then the steps of work that add_last() has added. Workers take
// steps in turn from all work of the same priority. Engine thread only.

#include <cstdint>
#include <deque>
#include <memory>

#include "runtime/wait_queue.hpp"
#include "runtime/work.hpp"

namespace ringload::inline v0::detail {

class schedule {
 public:
  // A step that was taken from `owner`. `awaited` is true if a caller waits for the step.
  struct assignment {
    std::shared_ptr<work> owner;  // If null, the schedule is closed.
    std::uint32_t step = 0;
    bool awaited = false;
  };

  explicit schedule(boost::asio::io_context& loop) : waiting_(loop) {}

  void add(const std::shared_ptr<work>& owner);
  // Adds work that has steps for which a caller waits.
  void prioritize(const std::shared_ptr<work>& owner);
  // Adds work of the lowest priority. Its steps are taken when no other work has a step.
  void add_last(const std::shared_ptr<work>& owner);
  // Removes work that has no step any more. Otherwise, the schedule would hold it until a worker is
  // free, and all workers may be busy for long.
  void remove(const work& ended) noexcept;
  // Wakes one waiting worker. Must be called when a drive can accept one more step.
  void wake_worker() { waiting_.wake_one(); }
  // Wakes all waiting workers. Must be called when drives can accept several more steps.
  void wake_all_workers() { waiting_.wake_all(); }
  // Ends the workers: when no step is left, take_step() returns an assignment with a null owner.
  void close();

  // Waits until a step is available, and takes this step.
  boost::asio::awaitable<assignment> take_step();

 private:
  // A `work` is in the same queue at most once. A `work` leaves the queue when take_step() offers
  // no step and work::offer::has_waiting_step is false.
  using work_queue = std::deque<std::shared_ptr<work>>;

  void add_to(work_queue& queue, const std::shared_ptr<work>& owner);
  static bool take_from(work_queue& queue, bool awaited, assignment& taken);
  bool find_step(assignment& taken);

  work_queue urgent_;
  work_queue ready_;
  work_queue last_;
  wait_queue waiting_;
  bool closed_ = false;
};

}  // namespace ringload::inline v0::detail
