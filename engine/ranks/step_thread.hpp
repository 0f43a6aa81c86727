// SPDX-License-Identifier: Apache-2.0
#pragma once

// A thread that runs steps in order. It is used for work that waits for other ranks.

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

  // Throws std::system_error.
  step_thread() {
    const signals_blocked in_the_thread;
    thread_ = std::thread([queue = queue_] { run(*queue); });
  }
  step_thread(const step_thread&) = delete;
  step_thread& operator=(const step_thread&) = delete;
  // Waits for all steps. If called from a step, that step is the last one and is not waited for.
  ~step_thread() {
    {
      const std::lock_guard lock(queue_->mutex);
      queue_->over = true;
    }
    queue_->changed.notify_one();
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  // Thread-safe.
  void add(std::unique_ptr<step> new_step) {
    const auto queue = queue_;  // The step may destroy this object.
    const std::lock_guard lock(queue->mutex);
    queue->steps.push_back(std::move(new_step));
    queue->changed.notify_one();
  }

 private:
  struct steps_to_run {
    std::mutex mutex;
    std::condition_variable changed;
    // Guarded by the mutex.
    std::deque<std::unique_ptr<step>> steps;
    bool over = false;
  };

  static void run(steps_to_run& queue) {
    std::unique_lock lock(queue.mutex);
    for (;;) {
      queue.changed.wait(lock, [&] { return queue.over || !queue.steps.empty(); });
      if (queue.steps.empty()) return;
      auto next = std::move(queue.steps.front());
      queue.steps.pop_front();
      lock.unlock();
      next->run();
      next.reset();
      lock.lock();
    }
  }

  // Shared with the thread, which outlives this object if a step destroys it.
  const std::shared_ptr<steps_to_run> queue_ = std::make_shared<steps_to_run>();
  std::thread thread_;
};

}  // namespace ringload::inline v0::detail
