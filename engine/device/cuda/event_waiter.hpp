// SPDX-License-Identifier: Apache-2.0
#pragma once

// A thread that sleeps until an event of the device has come, and then wakes the loop.
//
// Other ways were considered. To ask the event again and again costs a call every 20 us, copy done
// or not. A host function on a stream wakes the loop as soon, but CUDA may run all host functions
// of a process one after the other, so those of the program would hold up ours, and it runs none
// once the context is broken. A thread in cudaEventSynchronize depends on nobody, and returns with
// an error then.

#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "device/cuda/handles.hpp"

namespace ringload::inline v0::cuda {

class event_waiter {
 public:
  // `came` is called in the loop once for each wait(), with what went wrong in waiting.
  event_waiter(boost::asio::io_context& loop,
               std::function<void(boost::system::error_code failed)> came);
  event_waiter(const event_waiter&) = delete;
  event_waiter& operator=(const event_waiter&) = delete;
  // Waits for the event that is being waited for.
  ~event_waiter();

  // Starts the thread, which works for that device.
  boost::system::error_code open(int device);

  // Not again before `came` was called. The event stays as it is until then.
  void wait(const event& which) noexcept;

 private:
  void run(int device);

  boost::asio::io_context& loop_;
  const std::function<void(boost::system::error_code)> came_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  const event* next_ = nullptr;
  bool stopping_ = false;
};

}  // namespace ringload::inline v0::cuda
