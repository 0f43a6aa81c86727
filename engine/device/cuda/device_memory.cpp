// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/device_memory.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/signals_blocked.hpp"

namespace ringload::inline v0::cuda {

namespace {

// Limit on the wait at process exit. The driver frees the rest. After a fork, the counted threads
// may be the parent's.
constexpr std::chrono::seconds exit_wait_max{2};

// Each thread frees one block after another. There are several threads because a block may have to
// wait a long time for work on the device.
constexpr unsigned freeing_threads_max = 8;

// Memory that is being freed, and the threads that free it.
struct freeing_queue {
  std::mutex mutex;
  std::condition_variable ended;
  // Guarded by the mutex.
  std::unique_ptr<taken_memory> first;  // An intrusive list, so that nothing is allocated.
  unsigned count = 0;                   // Blocks in the list or being freed.
  unsigned threads = 0;

  // Adds a block. Returns true if another thread is needed.
  bool add(std::unique_ptr<taken_memory> block) {
    const std::lock_guard lock(mutex);
    block->next = std::move(first);
    first = std::move(block);
    count += 1;
    if (threads == freeing_threads_max) return false;
    threads += 1;
    return true;
  }

  // Frees the blocks of the list. In a library thread the block's device becomes the current one.
  // cudaFree works without this, but is then called with the wrong current device.
  void run(bool in_own_thread) {
    std::unique_lock lock(mutex);
    while (first) {
      std::unique_ptr<taken_memory> block = std::move(first);
      first = std::move(block->next);
      lock.unlock();
      if (in_own_thread) (void)use_device(block->device);
      block.reset();
      lock.lock();
      count -= 1;
    }
    threads -= 1;
    ended.notify_all();
  }

  bool is_idle() const noexcept { return count == 0 && threads == 0; }
};

// Never destroyed, because a tensor may be a static object of the program and be destroyed last.
freeing_queue& the_freeing_queue() {
  static freeing_queue& queue = *new freeing_queue;
  return queue;
}

// Ensures that no thread of the library is left when the library is unloaded.
struct exit_guard {
  exit_guard() {}
  exit_guard(const exit_guard&) = delete;
  exit_guard& operator=(const exit_guard&) = delete;
  ~exit_guard() {
    freeing_queue& queue = the_freeing_queue();
    std::unique_lock lock(queue.mutex);
    queue.ended.wait_for(lock, exit_wait_max, [&] { return queue.is_idle(); });
  }
};

}  // namespace

boost::system::error_code taken_memory::wait_for_uses() {
  boost::system::error_code first;
  for (const event& use : uses) {
    if (auto failed = use.wait(); failed && !first) first = failed;
  }
  return first;
}

taken_memory::~taken_memory() {
  (void)wait_for_uses();
  logged.release();
  if (!address) return;
  (void)code_of(is_of_another_process ? cudaIpcCloseMemHandle(address) : cudaFree(address));
}

device_block::~device_block() {
  if (!memory_) return;
  freeing_queue& queue = the_freeing_queue();
  static const exit_guard guard;
  if (!queue.add(std::move(memory_))) return;
  try {
    const signals_blocked now;
    std::thread([&queue] { queue.run(true); }).detach();
  } catch (const std::exception&) {
    queue.run(false);
  }
}

void wait_for_returned_memory() noexcept {
  freeing_queue& queue = the_freeing_queue();
  std::unique_lock lock(queue.mutex);
  queue.ended.wait(lock, [&] { return queue.is_idle(); });
}

}  // namespace ringload::inline v0::cuda
