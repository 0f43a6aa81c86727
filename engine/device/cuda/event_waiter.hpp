// SPDX-License-Identifier: Apache-2.0
#pragma once

// A thread that sleeps until a CUDA event completes and then wakes the loop.
//
// Other designs were considered. Polling the event costs a call every 20 us, whether or not the
// copy has ended. A host function on a stream wakes the loop as early, but CUDA may run all host
// functions of a process one after another, so the program's functions would delay ours; and CUDA
// runs none after an error of the context. A thread in cudaEventSynchronize is independent and then
// returns with an error.

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
  // Calls `ended` in the loop once for each wait(), with the error of the wait.
  event_waiter(boost::asio::io_context& loop,
               std::function<void(boost::system::error_code failed)> ended);
  event_waiter(const event_waiter&) = delete;
  event_waiter& operator=(const event_waiter&) = delete;
  // Waits for the pending event.
  ~event_waiter();

  // Starts the thread for device `device`.
  boost::system::error_code open(int device);

  // The next call must follow the call of `ended`. The event must not change until then.
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
