// SPDX-License-Identifier: Apache-2.0
#pragma once

// A thread that runs steps one after another. Used by collective loads and by delta operations,
// whose steps may block for a long time. Unlike a task of class `threads`, a step may destroy the
// object that owns its thread.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/signals_blocked.hpp"

namespace ringload::inline v0::detail {

class step_thread {
 public:
  class step {
   public:
    virtual ~step() = default;
    virtual void run() noexcept = 0;
  };

  // Starts the thread. Throws std::system_error on failure.
  step_thread() {
    const signals_blocked in_the_thread;
    thread_ = std::thread([queue = queue_] { run(*queue); });
  }
  step_thread(const step_thread&) = delete;
  step_thread& operator=(const step_thread&) = delete;
  // Waits until all steps have run. If a step calls the destructor, the destructor does not wait.
  // In this case, the queue must have no other step.
  ~step_thread() {
    {
      const std::lock_guard lock(queue_->mutex);
      queue_->is_closed = true;
    }
    queue_->changed.notify_one();
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  // May be called from any thread.
  void add(std::unique_ptr<step> new_step) {
    // The step may run and destroy this object before add() returns. `queue` keeps the queue alive.
    const auto queue = queue_;
    const std::lock_guard lock(queue->mutex);
    queue->steps.push_back(std::move(new_step));
    queue->changed.notify_one();
  }

 private:
  struct steps_to_run {
    std::mutex mutex;
    std::condition_variable changed;
    // `mutex` guards the members below.
    std::deque<std::unique_ptr<step>> steps;
    bool is_closed = false;
  };

  static void run(steps_to_run& queue) {
    std::unique_lock lock(queue.mutex);
    for (;;) {
      queue.changed.wait(lock, [&] { return queue.is_closed || !queue.steps.empty(); });
      if (queue.steps.empty()) return;
      auto next = std::move(queue.steps.front());
      queue.steps.pop_front();
      lock.unlock();
      next->run();
      next.reset();
      lock.lock();
    }
  }

  // Shared with the thread. The thread uses the queue even after a step has destroyed this object.
  const std::shared_ptr<steps_to_run> queue_ = std::make_shared<steps_to_run>();
  std::thread thread_;
};

}  // namespace ringload::inline v0::detail
