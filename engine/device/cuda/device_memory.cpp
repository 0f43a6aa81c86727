// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/device_memory.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/retry_allocation.hpp"
#include "base/signals_blocked.hpp"

namespace ringload::inline v0::cuda {

namespace {

// Limits the wait at the end of the process. The driver frees the remaining memory afterwards. In a
// forked process, the wait takes the full time if `threads` counts threads of the parent process.
constexpr std::chrono::seconds exit_wait_max{2};

// Several threads free blocks, because one block may be in use for a long time.
constexpr unsigned freeing_threads_max = 8;

// The memory to free, and the threads that free the memory.
struct freeing_queue {
  std::mutex mutex;
  std::condition_variable ended;
  // Guarded by the mutex. Linked through device_resource::next, so that add() allocates no memory.
  std::unique_ptr<device_resource> first;
  unsigned count = 0;  // Number of objects that are in the list or are being destroyed.
  unsigned threads = 0;

  // Adds an object. Returns true if the caller must start another thread.
  bool add(std::unique_ptr<device_resource> resource) {
    const std::lock_guard lock(mutex);
    resource->next = std::move(first);
    first = std::move(resource);
    count += 1;
    if (threads == freeing_threads_max) return false;
    threads += 1;
    return true;
  }

  // Destroys all objects of the list. A thread of the library first selects the device of each
  // object. A thread of the program keeps its current device, because cudaFree works with any
  // current device.
  void run(bool in_own_thread) {
    if (in_own_thread) ::pthread_setname_np(::pthread_self(), "ringload-free");
    std::unique_lock lock(mutex);
    while (first) {
      std::unique_ptr<device_resource> resource = std::move(first);
      first = std::move(resource->next);
      lock.unlock();
      if (in_own_thread) (void)use_device(resource->device);
      resource.reset();
      lock.lock();
      count -= 1;
    }
    threads -= 1;
    ended.notify_all();
  }

  bool is_idle() const noexcept { return count == 0 && threads == 0; }
};

// Never destroyed, because a static object of the program may own a tensor and be destroyed last.
freeing_queue& the_freeing_queue() {
  static freeing_queue& queue = *new freeing_queue;
  return queue;
}

// Waits for the freeing threads before the library is unloaded, for at most exit_wait_max.
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
  // A call can fail although the device works, for example if memory is exhausted. A failed call is
  // repeated, because the memory must not be freed while the device uses the memory.
  constexpr int tries_max = 3;
  boost::system::error_code first;
  for (const event& use : uses) {
    boost::system::error_code failed = use.wait();
    for (int tries = 1; failed && tries < tries_max; ++tries) failed = use.wait();
    if (failed && !first) first = failed;
  }
  return first;
}

boost::system::error_code taken_memory::check_uses(bool& is_used) {
  while (!uses.empty()) {
    const cudaError_t state = cudaEventQuery(uses.back().get());
    const boost::system::error_code failed = code_of(state);
    is_used = state == cudaErrorNotReady;
    if (is_used) return {};
    if (failed) return failed;
    uses.pop_back();
  }
  return {};
}

taken_memory::~taken_memory() {
  (void)wait_for_uses();
  logged.release();
  if (!shareable && !is_borrowed && address) (void)code_of(cudaFree(address));
  shareable.reset();
  for (std::size_t done = 0; done < registered.size(); done += registered_bytes_max) {
    (void)code_of(cudaHostUnregister(registered.data() + done));
  }
  if (!unmapped.empty()) (void)::munmap(unmapped.data(), unmapped.size());
}

device_block::~device_block() {
  if (memory_) destroy_later(std::move(memory_));
}

result<std::optional<device_block>> take_unused(free_list<device_block>& kept, int device,
                                                std::uint64_t bytes) {
  std::vector<device_block> used;
  std::optional<device_block> found;
  boost::system::error_code failed;
  while ((found = kept.take(bytes))) {
    bool is_used = false;
    failed = use_device(device);
    if (!failed) failed = found->memory().check_uses(is_used);
    if (failed || !is_used) break;
    used.push_back(std::move(*found));
  }
  for (device_block& block : used) kept.put(std::move(block));
  if (failed) return fault{failed, name_of(device)};
  return found;
}

void destroy_later(std::unique_ptr<device_resource> resource) noexcept {
  freeing_queue& queue = the_freeing_queue();
  static const exit_guard guard;
  if (!queue.add(std::move(resource))) return;
  retry_allocation([&queue] {
    try {
      const signals_blocked now;
      std::thread([&queue] { queue.run(true); }).detach();
    } catch (const std::system_error&) {
      queue.run(false);
    }
  });
}

void wait_for_returned_memory(std::chrono::milliseconds limit) noexcept {
  freeing_queue& queue = the_freeing_queue();
  std::unique_lock lock(queue.mutex);
  queue.ended.wait_for(lock, limit, [&] { return queue.is_idle(); });
}

}  // namespace ringload::inline v0::cuda
