// SPDX-License-Identifier: Apache-2.0
#pragma once

// A thread that waits for a CUDA event, then calls a function in the event loop. Used by `copier`.
//
// Two other designs were rejected. Polling the event costs one call every 20 us, even if no copy
// has ended. A host function on a stream is as fast as this thread, but has two disadvantages. CUDA
// may run the host functions of a process one after another, so functions of the program would
// cause delays. After an error of the context, CUDA runs no host function. This thread calls
// cudaEventSynchronize, which does not depend on functions of the program, and which returns the
// error of the context.

#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "device/cuda/raii.hpp"

namespace ringload::inline v0::cuda {

class event_waiter {
 public:
  // Calls `ended` in the event loop once for each wait(). The argument is the error of the wait.
  event_waiter(boost::asio::io_context& loop,
               std::function<void(boost::system::error_code failed)> ended);
  event_waiter(const event_waiter&) = delete;
  event_waiter& operator=(const event_waiter&) = delete;
  // If an event is pending, waits for this event.
  ~event_waiter();

  // Starts the thread for device `device`. Does nothing if the thread already runs.
  boost::system::error_code open(int device);

  // Starts to wait for the event. Until `ended` is called, the caller must not call wait() again or
  // change the event.
  void wait(const event& pending_event) noexcept;

 private:
  void run(int device);

  boost::asio::io_context& loop_;
  const std::function<void(boost::system::error_code)> ended_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex.
  const event* next_ = nullptr;
  bool stopping_ = false;
};

}  // namespace ringload::inline v0::cuda
