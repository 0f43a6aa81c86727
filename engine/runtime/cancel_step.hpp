// SPDX-License-Identifier: Apache-2.0
#pragma once

// Cancels the current step of a `step_thread`, from any thread. A step may block in wait_for(),
// which waits for a loader, or in another call. A cancellation ends wait_for(), and calls the
// function `interrupt` to end other calls. A cancellation has no effect on a finished step.

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
#include <new>
#include <ringload/as_exception.hpp>
#include <ringload/detail/operation.hpp>
#include <utility>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0::detail {

class step_cancellation : public std::enable_shared_from_this<step_cancellation> {
 public:
  // The thread that cancels the step calls `interrupt`, unless `interrupt` is empty. `interrupt`
  // must end a blocking call of the step.
  explicit step_cancellation(std::function<void()> interrupt = {})
      : interrupt_(std::move(interrupt)) {}

  // Begins a step. Until finish() is called, `cancel` can cancel the step.
  void begin(cancel_request& cancel) {
    std::uint64_t step = 0;
    {
      const std::lock_guard lock(mutex_);
      step = ++current_step_;
      is_finished_ = false;
      if (is_closed_) cancelled_step_ = step;
    }
    cancel.arm([self = weak_from_this(), step] {
      if (const auto alive = self.lock()) alive->request(step);
    });
  }

  // Cancels the current step and all later steps. May be called before begin().
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    if (current_step_ == 0 || !is_finished_) cancel_current();
  }

  // Ends the step. Returns true if the step was cancelled. Later cancellations have no effect.
  // finish(), is_cancelled() and wait_for() must be called after begin().
  bool finish() noexcept {
    const std::lock_guard lock(mutex_);
    is_finished_ = true;
    return cancelled_step_ == current_step_;
  }

  bool is_cancelled() const noexcept {
    const std::lock_guard lock(mutex_);
    return cancelled_step_ == current_step_;
  }

  // Starts an asynchronous operation by calling `start` with a completion handler, and blocks until
  // the operation completes. Returns the result of the operation, or throws the exception of the
  // operation. When the step is cancelled, the operation is cancelled too. Must be called in the
  // thread of the step.
  template <class T, class Start>
  T wait_for(const Start& start) {
    boost::asio::io_context loop(1);
    boost::asio::cancellation_signal signal;
    std::exception_ptr failed;
    T outcome;
    bool is_complete = false;
    const auto take = [&](std::exception_ptr failure, T value) {
      failed = std::move(failure);
      outcome = std::move(value);
      is_complete = true;
    };
    start(boost::asio::bind_executor(
        loop, boost::asio::bind_cancellation_slot(signal.slot(), as_exception(take))));
    // The signal is not thread-safe, so the signal is emitted in the thread that runs `loop`.
    const auto emit = [&signal] { signal.emit(boost::asio::cancellation_type::terminal); };
    set_cancel([&loop, emit] { retry_allocation([&] { boost::asio::post(loop, emit); }); });
    loop.run();
    set_cancel({});
    if (failed) std::rethrow_exception(failed);
    // If there is no memory to post the completion, the handler is destroyed without a call.
    if (!is_complete) throw std::bad_alloc();
    return outcome;
  }

 private:
  void request(std::uint64_t step) {
    const std::lock_guard lock(mutex_);
    if (!is_finished_ && step == current_step_) cancel_current();
  }

  // The caller must hold the mutex.
  void cancel_current() {
    cancelled_step_ = current_step_;
    if (interrupt_) interrupt_();
    if (cancel_operation_) cancel_operation_();
  }

  void set_cancel(std::function<void()> cancel) {
    const std::lock_guard lock(mutex_);
    cancel_operation_ = std::move(cancel);
    if (cancelled_step_ == current_step_ && cancel_operation_) cancel_operation_();
  }

  const std::function<void()> interrupt_;
  mutable std::mutex mutex_;
  // The mutex guards the members below.
  std::uint64_t current_step_ = 0;
  std::uint64_t cancelled_step_ = 0;  // Number of the last cancelled step, or 0.
  bool is_finished_ = true;
  bool is_closed_ = false;
  std::function<void()> cancel_operation_;  // Set while wait_for() runs.
};

}  // namespace ringload::inline v0::detail
