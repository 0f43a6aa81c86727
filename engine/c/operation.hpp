// SPDX-License-Identifier: Apache-2.0
#pragma once

// An operation of the C interface. The completion handler stores the result for the caller.
//
//   completion thread   starts and cancels operations, receives results, calls callbacks
//   any thread          waits, takes the descriptor or the result
//
// The completion thread runs all handlers of its operations. Therefore the cancellation signal
// needs no lock, and callbacks without an executor are called one after another.

#include <ringload/c.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <ringload/checkpoint.hpp>
#include <ringload/diagnostics.hpp>
#include <ringload/fill.hpp>
#include <ringload/group_load.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/model.hpp>
#include <ringload/save.hpp>
#include <ringload/tensor.hpp>
#include <ringload/writer.hpp>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "c/handles.hpp"
#include "c/status.hpp"

namespace ringload::c {

/// Threads that run an io_context, with all signals blocked. The threads end when the object is
/// destroyed and the context has no pending work. The destructor waits for the threads, unless one
/// of these threads calls the destructor.
class context_threads {
 public:
  explicit context_threads(std::size_t count);
  context_threads(const context_threads&) = delete;
  context_threads& operator=(const context_threads&) = delete;
  ~context_threads();

  boost::asio::io_context& context() const noexcept { return *context_; }
  /// Returns true if the calling thread is one of these threads.
  bool is_this() const noexcept;

 private:
  void end() noexcept;

  // Shared with the threads. One of the threads may destroy this object, and still uses the context
  // afterwards.
  std::shared_ptr<boost::asio::io_context> context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

/// The thread that a loader, its loads and its operations share. The thread ends when the
/// completion_thread has no owner and no pending work.
class completion_thread : public context_threads {
 public:
  completion_thread() : context_threads(1) {}
};

/// The result of an operation. If a load has no further tensor, the result is an empty tensor.
using any_result =
    std::variant<std::monostate, checkpoint, model, load_operation, tensor_stream, tensor,
                 fill_result, save_result, write_result, group_load, std::uint64_t>;

template <class T>
any_result any_result_of(T value) {
  return any_result(std::in_place_type<T>, std::move(value));
}
inline any_result any_result_of(std::optional<tensor> next) {
  return any_result(std::in_place_type<tensor>, next ? std::move(*next) : tensor());
}

/// The failures that an operation reports as RINGLOAD_INVALID_ARGUMENT instead of
/// RINGLOAD_INVALID_FILE, because the arguments of the caller have caused the failures.
enum class argument_failures : std::uint8_t {
  none,
  names,  // Failures with errc::duplicate_tensor or errc::header_not_utf8.
  all     // For operations that write, and that read no file.
};

/// The error code of the last step that failed because an existing file is invalid. All steps of
/// one writer share the value. The value is 0 if there was no such failure, or if a later step has
/// succeeded. If the failed step has changed the new file, all later steps fail with the same code.
using file_failure = std::atomic<int>;

class operation_state;

struct end_callback {
  void (*then)(void* context, ringload_status status);
  void* context;
  ringload_executor executor;  // If `executor.post` is null, the completion thread calls `then`.
  std::shared_ptr<operation_state> operation = nullptr;  // Set when the callback is posted.
};

class operation_state : public std::enable_shared_from_this<operation_state> {
 public:
  /// This object keeps `keep_alive` alive.
  explicit operation_state(std::shared_ptr<completion_thread> thread,
                           std::shared_ptr<void> keep_alive = nullptr)
      : thread_(std::move(thread)), keep_alive_(std::move(keep_alive)) {}
  operation_state(const operation_state&) = delete;
  operation_state& operator=(const operation_state&) = delete;
  ~operation_state();

  /// The handler of a result of type T. If the library has no memory to post the handler, the
  /// handler is destroyed without a call, and the operation fails with errc::memory_exceeded. If
  /// the handler is destroyed by an exception of `initiate`, begin() reports this exception.
  template <class T>
  class result_handler {
   public:
    explicit result_handler(std::shared_ptr<operation_state> state) : state_(std::move(state)) {}
    result_handler(result_handler&&) noexcept = default;
    ~result_handler() {
      if (!state_) return;
      const bool in_initiate = std::uncaught_exceptions() > 0 && state_->thread_->is_this();
      if (!in_initiate) state_->end(errc::memory_exceeded, {});
    }

    void operator()(const boost::system::error_code& code, T value) {
      const std::shared_ptr<operation_state> state = std::move(state_);
      state->end(code, any_result_of(std::move(value)));
    }

   private:
    std::shared_ptr<operation_state> state_;
  };

  /// Starts the operation: calls `initiate` in the completion thread, with a handler for a result
  /// of type T. `earlier` may be null. A failure with the code `earlier` is not an argument failure
  /// if `failures` is argument_failures::all. The end of the operation updates `earlier`.
  template <class T, class Initiate>
  void begin(Initiate initiate, argument_failures failures, std::shared_ptr<file_failure> earlier) {
    argument_failures_ = failures;
    file_failure_ = std::move(earlier);
    is_fill_ = std::is_same_v<T, fill_result>;
    boost::asio::post(
        thread_->context(), [self = shared_from_this(), initiate = std::move(initiate)]() mutable {
          result_handler<T> handler(self);
          const auto failed = catch_as_code(self->info_, [&] {
            initiate(boost::asio::bind_executor(
                self->thread_->context().get_executor(),
                boost::asio::bind_cancellation_slot(
                    self->signal_.slot(), bind_diagnostics(self->info_, std::move(handler)))));
          });
          if (failed) self->end(failed, {});
        });
  }

  void cancel();

  /// Returns RINGLOAD_PENDING, or the status of the result. After a failure, also sets the last
  /// error of the calling thread.
  ringload_status status() const noexcept;
  ringload_status wait(std::int64_t milliseconds);
  int descriptor();
  /// Sets the callback that is called or posted when the operation has ended. Throws
  /// invalid_argument if a pending operation has a callback already.
  void on_end(std::unique_ptr<end_callback> callback);

  /// Calls `use` with the result, and returns what `use` returns. If the operation has no result,
  /// returns the status of the operation instead. A pending operation, a failed operation and an
  /// operation at the end of a stream have no result. Throws invalid_argument if the result has
  /// another type or was already taken.
  template <class T, class Use>
  ringload_status with_result(Use use) {
    const ringload_status now = status();
    if (now != RINGLOAD_OK) return now;
    const std::scoped_lock lock(mutex_);
    T* const result = std::get_if<T>(&result_);
    if (!result)
      throw invalid_argument("the operation's result has another type, or was already taken");
    return use(*result);
  }

  /// Returns true if the operation has a result of type T.
  template <class T>
  bool has_result_of() const {
    const std::scoped_lock lock(mutex_);
    return std::holds_alternative<T>(result_);
  }

  const std::shared_ptr<completion_thread>& thread() const noexcept { return thread_; }
  const std::shared_ptr<void>& keep_alive() const noexcept { return keep_alive_; }

  /// Returns true if the operation is a fill, also before it has ended and after a failure.
  bool is_fill() const noexcept { return is_fill_; }

  /// Returns the place and the cause of the failure. For a failed fill, also returns the names of
  /// the complete and the incomplete tensors. The operation must have ended.
  const diagnostics& failure() const noexcept { return info_; }

  /// Drops the result after the result was moved. Must be called inside with_result(), which locks
  /// the mutex.
  void forget_result() noexcept { result_.emplace<std::monostate>(); }

 private:
  void end(const boost::system::error_code& code, any_result result) noexcept;
  ringload_status status_locked() const noexcept;
  bool is_argument_failure(const boost::system::error_code& code) const noexcept;
  void run(std::unique_ptr<end_callback> callback) noexcept;

  const std::shared_ptr<completion_thread> thread_;
  const std::shared_ptr<void> keep_alive_;
  boost::asio::cancellation_signal signal_;  // Used in the completion thread only.
  bool is_fill_ = false;                     // Constant after begin().
  argument_failures argument_failures_ = argument_failures::none;  // Constant after begin().
  std::shared_ptr<file_failure> file_failure_;                     // Constant after begin().
  // Written by the completion thread before the operation ends. Constant afterwards.
  diagnostics info_;

  mutable std::mutex mutex_;  // Guards the members below.
  std::condition_variable ended_;
  bool has_ended_ = false;
  bool is_argument_failure_ = false;
  boost::system::error_code code_;
  any_result result_;
  int event_ = -1;
  std::unique_ptr<end_callback> callback_;
};

/// Starts an operation and stores its handle in `result`. The operation keeps `keep_alive` alive.
template <class T, class Initiate>
ringload_status begin_operation(const std::shared_ptr<completion_thread>& thread,
                                ringload_operation** result, Initiate initiate,
                                std::shared_ptr<void> keep_alive = nullptr,
                                argument_failures failures = argument_failures::none,
                                std::shared_ptr<file_failure> earlier = nullptr) {
  required(result, "the output pointer for the operation is null") = nullptr;
  auto handle = std::make_unique<ringload_operation>();
  handle->state = std::make_shared<operation_state>(thread, std::move(keep_alive));
  handle->state->template begin<T>(std::move(initiate), failures, std::move(earlier));
  *result = handle.release();
  return RINGLOAD_OK;
}

/// Starts an operation by calling `begin`, waits for the operation, and calls `take` if the
/// operation succeeds.
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

/// Starts an operation without a result by calling `begin`, and waits for the operation.
template <class Begin>
ringload_status begin_and_wait(Begin begin) noexcept {
  return begin_and_wait(begin, [](ringload_operation*) { return RINGLOAD_OK; });
}

/// Starts an operation by calling `begin`, waits for the operation, and stores its result in
/// `result`. `take` must be the function of the C interface for this kind of result.
template <class Begin, class Handle>
ringload_status begin_and_wait(Begin begin, ringload_status (*take)(ringload_operation*, Handle**),
                               Handle** result) noexcept {
  if (result) *result = nullptr;
  return begin_and_wait(begin,
                        [&](ringload_operation* operation) { return take(operation, result); });
}

}  // namespace ringload::c
