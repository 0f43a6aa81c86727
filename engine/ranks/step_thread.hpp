// SPDX-License-Identifier: Apache-2.0
#pragma once

// One thread that runs steps in the order in which they come, for what waits for other ranks.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/signals_blocked.hpp"

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
  // Waits for all steps; but not in one of them, which is then the last.
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

  // From any thread.
  void add(std::unique_ptr<step> one) {
    const auto queue = queue_;  // The step may end this.
    const std::lock_guard lock(queue->mutex);
    queue->steps.push_back(std::move(one));
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

  // Shared with the thread, which outlives this when it ends it.
  const std::shared_ptr<steps_to_run> queue_ = std::make_shared<steps_to_run>();
  std::thread thread_;
};

}  // namespace ringload::inline v0::detail
