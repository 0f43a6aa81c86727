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

struct returning_threads {
  std::mutex mutex;
  std::condition_variable ended;
  unsigned count = 0;  // Guarded by the mutex.

  void begin_one() {
    const std::lock_guard lock(mutex);
    count += 1;
  }
  void end_one() {
    const std::lock_guard lock(mutex);
    count -= 1;
    ended.notify_all();
  }
};

// Never destroyed: a tensor may be the program's own static object, and be destroyed last.
returning_threads& the_returning_threads() {
  static returning_threads& one = *new returning_threads;
  return one;
}

// No thread of ours is left when the library is unloaded.
struct exit_guard {
  exit_guard() {}
  exit_guard(const exit_guard&) = delete;
  exit_guard& operator=(const exit_guard&) = delete;
  ~exit_guard() {
    returning_threads& all = the_returning_threads();
    std::unique_lock lock(all.mutex);
    all.ended.wait_for(lock, exit_wait_max, [&] { return all.count == 0; });
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
  if (address) (void)code_of(cudaFree(address));
}

device_block::~device_block() {
  if (!memory_) return;
  returning_threads& all = the_returning_threads();
  static const exit_guard guard;
  all.begin_one();
  taken_memory* const mine = memory_.release();
  try {
    const signals_blocked now;
    std::thread([mine, &all] {
      // The address says which device it belongs to; the right thread is only the better one.
      (void)use_device(mine->device);
      delete mine;
      all.end_one();
    }).detach();
  } catch (const std::exception&) {
    delete mine;
    all.end_one();
  }
}

bool wait_for_returned_memory() noexcept {
  returning_threads& all = the_returning_threads();
  std::unique_lock lock(all.mutex);
  if (all.count == 0) return false;
  all.ended.wait(lock, [&] { return all.count == 0; });
  return true;
}

}  // namespace ringload::inline v0::cuda
