// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/event_waiter.hpp"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <system_error>
#include <utility>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0::cuda {

using boost::system::error_code;

event_waiter::event_waiter(boost::asio::io_context& loop,
                           std::function<void(error_code failed)> ended)
    : loop_(loop), ended_(std::move(ended)) {}

event_waiter::~event_waiter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

error_code event_waiter::open(int device) {
  if (thread_.joinable()) return {};
  try {
    thread_ = std::thread([this, device] { run(device); });
    return {};
  } catch (const std::system_error& e) {
    return {e.code().value(), boost::system::system_category()};
  }
}

void event_waiter::wait(const event& pending_event) noexcept {
  const std::lock_guard lock(mutex_);
  next_ = &pending_event;
  changed_.notify_one();
}

void event_waiter::run(int device) {
  ::pthread_setname_np(::pthread_self(), "ringload-event");
  const error_code no_device = use_device(device);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return next_ || stopping_; });
    if (!next_) return;
    const event& pending_event = *std::exchange(next_, nullptr);
    lock.unlock();
    error_code failed = pending_event.wait();
    // If use_device() has failed too, its error is the cause, and is reported instead.
    if (failed && no_device) failed = no_device;
    retry_allocation(
        [this, failed] { boost::asio::post(loop_, [this, failed] { ended_(failed); }); });
    lock.lock();
  }
}

}  // namespace ringload::inline v0::cuda
