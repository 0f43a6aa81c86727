// SPDX-License-Identifier: Apache-2.0
#pragma once

// An operation of the C interface: a completion handler that keeps its result for the caller.
//
//   completion thread     begins and cancels operations, receives results, calls callbacks. So the
//                         cancellation signal and the order of callbacks need no other lock.
//   any thread            waits, requests the descriptor and the result

#include <ringload/c.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/fill.hpp>
#include <ringload/group_load.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/model.hpp>
#include <ringload/save.hpp>
#include <ringload/tensor.hpp>
#include <ringload/writer.hpp>
#include <thread>
#include <utility>
#include <variant>

#include "c/handles.hpp"
#include "c/status.hpp"

namespace ringload::c {

/// One thread that runs an io_context. A loader, its loadings and its operations share the thread.
/// The thread ends after the last owner is released and all pending work is complete.
class completion_thread {
 public:
  completion_thread();
  completion_thread(const completion_thread&) = delete;
  completion_thread& operator=(const completion_thread&) = delete;
  ~completion_thread();

  boost::asio::io_context& context() const noexcept { return *context_; }
  bool is_this() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  // Shared with the thread, because the thread itself may destroy this object.
  std::shared_ptr<boost::asio::io_context> context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

/// An empty tensor marks the end of a loading's tensors.
using any_result = std::variant<std::monostate, checkpoint, model, load_operation, tensor,
                                fill_result, save_result, write_result, group_load, std::uint64_t>;

template <class T>
any_result any_result_of(T value) {
  return any_result(std::in_place_type<T>, std::move(value));
}
inline any_result any_result_of(std::optional<tensor> next) {
  return any_result(std::in_place_type<tensor>, next ? std::move(*next) : tensor());
}

class operation_state : public std::enable_shared_from_this<operation_state> {
 public:
  /// Keeps `kept` alive until the operation is complete and has no owner.
  explicit operation_state(std::shared_ptr<completion_thread> in,
                           std::shared_ptr<void> kept = nullptr)
      : thread_(std::move(in)), kept_(std::move(kept)) {}
  operation_state(const operation_state&) = delete;
  operation_state& operator=(const operation_state&) = delete;
  ~operation_state();

  /// Begins the operation: calls `initiate` in the completion thread with the handler for a result
  /// of type T.
  template <class T, class Initiate>
  void begin(Initiate initiate) {
    boost::asio::post(
        thread_->context(), [self = shared_from_this(), initiate = std::move(initiate)]() mutable {
          auto handler = [self](std::exception_ptr failure, T value) {
            self->end(std::move(failure), any_result_of(std::move(value)));
          };
          try {
            initiate(boost::asio::bind_executor(
                self->thread_->context().get_executor(),
                boost::asio::bind_cancellation_slot(self->signal_.slot(), std::move(handler))));
          } catch (...) {
            self->end(std::current_exception(), {});
          }
        });
  }

  void cancel();

  /// Returns RINGLOAD_PENDING or the final status. On failure, sets the thread's last error.
  ringload_status status() const noexcept;
  ringload_status wait(std::int64_t milliseconds);
  int descriptor();
  void on_end(void (*then)(void*, ringload_status), void* context);

  /// Calls `use` with the result. Returns any status other than RINGLOAD_OK unchanged.
  template <class T, class Use>
  ringload_status with_result(Use use) {
    const ringload_status now = status();
    if (now != RINGLOAD_OK) return now;
    const std::scoped_lock lock(mutex_);
    T* const result = std::get_if<T>(&result_);
    if (!result) throw invalid_argument("the operation's result is of another kind, or was taken");
    return use(*result);
  }

  /// True if the operation is complete and has a result of type T.
  template <class T>
  bool gives() const {
    const std::scoped_lock lock(mutex_);
    return std::holds_alternative<T>(result_);
  }

  const std::shared_ptr<completion_thread>& thread() const noexcept { return thread_; }
  const std::shared_ptr<void>& kept() const noexcept { return kept_; }

  /// The operation's exception; null if the operation has not failed.
  std::exception_ptr failure() const noexcept;

  /// Drops a result that only one caller may take. The lock of with_result() must be held.
  void forget_result() noexcept { result_.emplace<std::monostate>(); }

 private:
  void end(std::exception_ptr failure, any_result result) noexcept;
  ringload_status status_locked() const noexcept;

  const std::shared_ptr<completion_thread> thread_;
  const std::shared_ptr<void> kept_;
  boost::asio::cancellation_signal signal_;  // Only used in the completion thread.

  mutable std::mutex mutex_;  // Guards the members below.
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::exception_ptr failure_;
  any_result result_;
  int event_ = -1;
  void (*then_)(void*, ringload_status) = nullptr;
  void* then_context_ = nullptr;
};

/// Begins an operation that keeps `kept` alive, and returns its handle in `begun`.
template <class T, class Initiate>
ringload_status begin_operation(const std::shared_ptr<completion_thread>& in,
                                ringload_operation** begun, Initiate initiate,
                                std::shared_ptr<void> kept = nullptr) {
  required(begun, "the place for the operation is null") = nullptr;
  auto handle = std::make_unique<ringload_operation>();
  handle->state = std::make_shared<operation_state>(in, std::move(kept));
  handle->state->template begin<T>(std::move(initiate));
  *begun = handle.release();
  return RINGLOAD_OK;
}

/// The blocking form: calls `begin`, waits, and calls `take` if the operation succeeded.
template <class Begin, class Take>
ringload_status begin_and_wait(Begin begin, Take take) noexcept {
  ringload_operation* operation = nullptr;
  ringload_status status = begin(&operation);
  if (status != RINGLOAD_OK) return status;
  status = ringload_operation_wait(operation, -1);
  if (status == RINGLOAD_OK) status = take(operation);
  ringload_operation_release(operation);
  return status;
}

/// The blocking form of an operation without a result.
template <class Begin>
ringload_status begin_and_wait(Begin begin) noexcept {
  return begin_and_wait(begin, [](ringload_operation*) { return RINGLOAD_OK; });
}

/// The blocking form of an operation whose result `take`, a function of the interface, returns.
template <class Begin, class Handle>
ringload_status begin_and_wait(Begin begin, ringload_status (*take)(ringload_operation*, Handle**),
                               Handle** result) noexcept {
  if (result) *result = nullptr;
  return begin_and_wait(begin,
                        [&](ringload_operation* operation) { return take(operation, result); });
}

}  // namespace ringload::c
