// SPDX-License-Identifier: Apache-2.0
#pragma once

// Interrupts a rank from any thread: the calls of its group, and its wait for the loader. A rank
// runs one step at a time, so a cancellation applies to the current step or comes too late.

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
  explicit interruption(std::shared_ptr<group> rank_group) noexcept
      : group_(std::move(rank_group)) {}

  // Begins a step. `cancel` can cancel it until finish().
  void begin(cancel_request& cancel) {
    std::uint64_t step = 0;
    {
      const std::lock_guard lock(mutex_);
      step = ++step_;
      over_ = false;
    }
    cancel.arm([self = weak_from_this(), step] {
      if (const auto alive = self.lock()) alive->request(step);
    });
  }

  // Ends the step. Returns true if it was cancelled. Later cancellations have no effect.
  bool finish() noexcept {
    const std::lock_guard lock(mutex_);
    over_ = true;
    return cancelled_ == step_;
  }

  // Called in the thread of the step. Returns the result, of type T, of the operation that `start`
  // starts with the given handler. The operation is cancelled with the step. Throws the operation's
  // exception.
  template <class T, class Start>
  T wait_for(const Start& start) {
    boost::asio::io_context loop(1);
    boost::asio::cancellation_signal signal;
    std::exception_ptr failed;
    T outcome;
    start(boost::asio::bind_executor(
        loop, boost::asio::bind_cancellation_slot(
                  signal.slot(), [&failed, &outcome](std::exception_ptr failure, T value) {
                    failed = std::move(failure);
                    outcome = std::move(value);
                  })));
    // The signal belongs to the thread that runs the loop.
    const auto emit = [&signal] { signal.emit(boost::asio::cancellation_type::terminal); };
    set_wake([&loop, emit] { boost::asio::post(loop, emit); });
    loop.run();
    set_wake({});
    if (failed) std::rethrow_exception(failed);
    return outcome;
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
  // The mutex guards the members below.
  std::uint64_t step_ = 0;
  std::uint64_t cancelled_ = 0;  // The last cancelled step. Its group cannot be used any more.
  bool over_ = true;
  std::function<void()> wake_;  // Wakes the operation that is waited for.
};

}  // namespace ringload::inline v0::detail
