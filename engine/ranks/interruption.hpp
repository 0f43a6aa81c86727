// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ends what a rank is doing, from any thread: the calls of its group, and what it waits for of its
// loader. A rank does one thing at a time, so a cancellation is of that or comes too late.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <ringload/detail/operation.hpp>
#include <ringload/group.hpp>
#include <utility>

namespace ringload::inline v0::detail {

class interruption : public std::enable_shared_from_this<interruption> {
 public:
  explicit interruption(std::shared_ptr<group> of) noexcept : group_(std::move(of)) {}

  // A step begins, which `by` cancels until finish().
  void begin(cancel_request& by) {
    std::uint64_t step = 0;
    {
      const std::lock_guard lock(mutex_);
      step = ++step_;
      over_ = false;
    }
    by.arm([self = weak_from_this(), step] {
      if (const auto alive = self.lock()) alive->request(step);
    });
  }

  // The step is over. Whether it was cancelled; from now on it cannot be.
  bool finish() noexcept {
    const std::lock_guard lock(mutex_);
    over_ = true;
    return cancelled_ == step_;
  }

  // In the step's thread: what an operation of type T completes with. `start` is given its handler;
  // the operation is cancelled with the step. Throws what it fails with.
  template <class T, class Start>
  T wait_for(const Start& start) {
    boost::asio::io_context loop(1);
    boost::asio::cancellation_signal signal;
    std::exception_ptr failed;
    T made;
    start(boost::asio::bind_executor(
        loop, boost::asio::bind_cancellation_slot(
                  signal.slot(), [&failed, &made](std::exception_ptr failure, T value) {
                    failed = std::move(failure);
                    made = std::move(value);
                  })));
    // The signal belongs to the thread that runs the loop.
    const auto emit = [&signal] { signal.emit(boost::asio::cancellation_type::terminal); };
    set_wake([&loop, emit] { boost::asio::post(loop, emit); });
    loop.run();
    set_wake({});
    if (failed) std::rethrow_exception(failed);
    return made;
  }

 private:
  void request(std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    if (over_ || step != step_) return;
    cancelled_ = step;
    group_->interrupt();
    if (wake_) wake_();
  }

  void set_wake(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (cancelled_ == step_ && wake_) wake_();
  }

  const std::shared_ptr<group> group_;
  std::mutex mutex_;
  // The rest is guarded by the mutex.
  std::uint64_t step_ = 0;
  std::uint64_t cancelled_ = 0;  // The last step that was; its group is of no use any more.
  bool over_ = true;
  std::function<void()> wake_;  // Of the operation that is waited for.
};

}  // namespace ringload::inline v0::detail
