// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/device_memory.hpp"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/signals_blocked.hpp"

namespace ringload::inline v0::cuda {

namespace {

// How long an exit waits for memory on its way back. The driver takes the rest: after a fork the
// threads that are counted may be the parent's.
constexpr std::chrono::seconds exit_wait_max{2};

// Each of them frees one block after the other. More than one, because a block may have to wait for
// work on the device that takes long.
constexpr unsigned returning_threads_max = 8;

// Memory on its way back, and the threads that return it.
struct returning_memory {
  std::mutex mutex;
  std::condition_variable ended;
  // Guarded by the mutex.
  std::unique_ptr<taken_memory> first;  // A list, so that nothing is allocated for it.
  unsigned count = 0;                   // Blocks in the list, or being freed.
  unsigned threads = 0;

  // Whether another thread is needed for it.
  bool add(std::unique_ptr<taken_memory> one) {
    const std::lock_guard lock(mutex);
    one->next = std::move(first);
    first = std::move(one);
    count += 1;
    if (threads == returning_threads_max) return false;
    threads += 1;
    return true;
  }

  // Frees what is in the list. In a thread of the library's, the block's device becomes the
  // current one: the address says which it is, and the right thread is only the better one.
  void run(bool in_own_thread) {
    std::unique_lock lock(mutex);
    while (first) {
      std::unique_ptr<taken_memory> one = std::move(first);
      first = std::move(one->next);
      lock.unlock();
      if (in_own_thread) (void)use_device(one->device);
      one.reset();
      lock.lock();
      count -= 1;
    }
    threads -= 1;
    ended.notify_all();
  }

  bool all_back() const noexcept { return count == 0 && threads == 0; }
};

// Never destroyed: a tensor may be the program's own static object, and be destroyed last.
returning_memory& the_returning_memory() {
  static returning_memory& one = *new returning_memory;
  return one;
}

// No thread of ours is left when the library is unloaded.
struct exit_guard {
  exit_guard() {}
  exit_guard(const exit_guard&) = delete;
  exit_guard& operator=(const exit_guard&) = delete;
  ~exit_guard() {
    returning_memory& all = the_returning_memory();
    std::unique_lock lock(all.mutex);
    all.ended.wait_for(lock, exit_wait_max, [&] { return all.all_back(); });
  }
};

}  // namespace

boost::system::error_code taken_memory::wait_for_uses() {
  boost::system::error_code first;
  for (const event& one : uses) {
    if (auto failed = one.wait(); failed && !first) first = failed;
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
  returning_memory& all = the_returning_memory();
  static const exit_guard guard;
  if (!all.add(std::move(memory_))) return;
  try {
    const signals_blocked now;
    std::thread([&all] { all.run(true); }).detach();
  } catch (const std::exception&) {
    all.run(false);
  }
}

void wait_for_returned_memory() noexcept {
  returning_memory& all = the_returning_memory();
  std::unique_lock lock(all.mutex);
  all.ended.wait(lock, [&] { return all.all_back(); });
}

}  // namespace ringload::inline v0::cuda
