// SPDX-License-Identifier: Apache-2.0

#include "c/operation.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <chrono>

#include "c/structs.hpp"

namespace ringload::c {

namespace {

// Blocks all signals in the calling thread while the object exists, so that threads that start
// during this time do not receive signals of the program. This room cannot include the class of
// engine/base.
class signals_blocked {
 public:
  signals_blocked() noexcept {
    ::sigset_t all_signals;
    ::sigfillset(&all_signals);
    ::pthread_sigmask(SIG_SETMASK, &all_signals, &before_);
  }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;
  ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  ::sigset_t before_;
};

}  // namespace

context_threads::context_threads(std::size_t count)
    : context_(std::make_shared<boost::asio::io_context>(static_cast<int>(count))),
      work_(context_->get_executor()) {
  try {
    threads_.reserve(count);
    const signals_blocked no_signals;
    while (threads_.size() < count) {
      threads_.emplace_back([context = context_] { context->run(); });
    }
  } catch (...) {
    end();
    throw;
  }
}

context_threads::~context_threads() { end(); }

bool context_threads::is_this() const noexcept {
  return std::any_of(threads_.begin(), threads_.end(), [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

void context_threads::end() noexcept {
  work_.reset();
  // The handler that destroys this object counts as pending work of the context. A join would wait
  // for this handler, so none of the threads can be joined.
  const bool is_own_thread = is_this();
  for (std::thread& thread : threads_) {
    if (is_own_thread) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

namespace {

// The executor calls this function in a thread of the program. status() also sets the last error of
// this thread.
void call_posted(void* argument) {
  const std::unique_ptr<end_callback> callback(static_cast<end_callback*>(argument));
  callback->then(callback->context, callback->operation->status());
}

}  // namespace

operation_state::~operation_state() {
  if (event_ >= 0) close(event_);
}

void operation_state::end(const boost::system::error_code& code, any_result result) noexcept {
  std::unique_ptr<end_callback> callback;
  {
    const std::scoped_lock lock(mutex_);
    if (has_ended_) return;
    has_ended_ = true;
    code_ = code;
    const bool is_invalid = code && status_of(code) == RINGLOAD_INVALID_FILE;
    is_argument_failure_ = is_invalid && is_argument_failure(code);
    if (!code && file_failure_) *file_failure_ = 0;
    if (is_invalid && !is_argument_failure_ && file_failure_) *file_failure_ = code.value();
    result_ = std::move(result);
    if (event_ >= 0) eventfd_write(event_, 1);
    callback = std::move(callback_);
    ended_.notify_all();
  }
  if (callback) run(std::move(callback));
}

void operation_state::run(std::unique_ptr<end_callback> callback) noexcept {
  const ringload_executor executor = callback->executor;
  if (!executor.post) return callback->then(callback->context, status());
  callback->operation = shared_from_this();
  executor.post(executor.context, call_posted, callback.release());
}

// `code` must be an errc whose status is RINGLOAD_INVALID_FILE.
bool operation_state::is_argument_failure(const boost::system::error_code& code) const noexcept {
  switch (argument_failures_) {
    case argument_failures::none: break;
    case argument_failures::names:
      return code == errc::duplicate_tensor || code == errc::header_not_utf8;
    case argument_failures::all: return !file_failure_ || *file_failure_ != code.value();
  }
  return false;
}

ringload_status operation_state::status_locked() const noexcept {
  if (!has_ended_) return RINGLOAD_PENDING;
  if (code_) {
    const ringload_status status = report(code_, info_);
    return is_argument_failure_ ? RINGLOAD_INVALID_ARGUMENT : status;
  }
  const tensor* const next = std::get_if<tensor>(&result_);
  return next && !*next ? RINGLOAD_END : RINGLOAD_OK;
}

ringload_status operation_state::status() const noexcept {
  const std::scoped_lock lock(mutex_);
  return status_locked();
}

ringload_status operation_state::wait(std::int64_t milliseconds) {
  std::unique_lock lock(mutex_);
  const auto ended = [this] { return has_ended_; };
  if (!ended() && milliseconds != 0 && thread_->is_this()) {
    throw invalid_argument("a callback must not wait for an operation");
  }
  if (milliseconds < 0) {
    ended_.wait(lock, ended);
  } else {
    // The wait is limited to a century, because a longer wait would overflow the clock.
    const std::int64_t most = std::int64_t{100} * 366 * 24 * 3600 * 1000;
    ended_.wait_for(lock, std::chrono::milliseconds(std::min(milliseconds, most)), ended);
  }
  return status_locked();
}

int operation_state::descriptor() {
  const std::scoped_lock lock(mutex_);
  if (event_ < 0) {
    event_ = eventfd(has_ended_ ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_ < 0) {
      throw boost::system::system_error(errno, boost::system::system_category(),
                                        "no descriptor for the operation");
    }
  }
  return event_;
}

void operation_state::on_end(std::unique_ptr<end_callback> callback) {
  const std::scoped_lock lock(mutex_);
  if (callback_) throw invalid_argument("the operation has a callback already");
  if (!has_ended_) {
    callback_ = std::move(callback);
    return;
  }
  boost::asio::post(thread_->context(),
                    [self = shared_from_this(), callback = std::move(callback)]() mutable {
                      self->run(std::move(callback));
                    });
}

void operation_state::cancel() {
  {
    const std::scoped_lock lock(mutex_);
    if (has_ended_) return;
  }
  boost::asio::post(thread_->context(), [self = shared_from_this()] {
    self->signal_.emit(boost::asio::cancellation_type::terminal);
  });
}

}  // namespace ringload::c

using ringload::c::guarded;
using ringload::c::required;

namespace {

ringload::c::operation_state& state_of(const ringload_operation* operation) {
  return *required(operation, "the operation is null").state;
}

ringload_status set_callback(ringload_operation* operation, const ringload_executor& executor,
                             void (*then)(void*, ringload_status), void* context) {
  if (!then) throw ringload::c::invalid_argument("the callback is null");
  state_of(operation).on_end(std::make_unique<ringload::c::end_callback>(
      ringload::c::end_callback{then, context, executor}));
  return RINGLOAD_OK;
}

}  // namespace

ringload_status ringload_operation_wait(ringload_operation* operation, int64_t milliseconds) {
  return guarded([&] { return state_of(operation).wait(milliseconds); });
}

ringload_status ringload_operation_status(const ringload_operation* operation) {
  return guarded([&] { return state_of(operation).status(); });
}

ringload_status ringload_operation_descriptor(ringload_operation* operation, int* descriptor) {
  return guarded([&] {
    required(descriptor, "the output pointer for the descriptor is null") =
        state_of(operation).descriptor();
    return RINGLOAD_OK;
  });
}

ringload_status ringload_operation_on_end(ringload_operation* operation,
                                          void (*then)(void* context, ringload_status status),
                                          void* context) {
  return guarded([&] { return set_callback(operation, {}, then, context); });
}

ringload_status ringload_operation_on_end_in(ringload_operation* operation,
                                             const ringload_executor* executor,
                                             void (*then)(void* context, ringload_status status),
                                             void* context) {
  return guarded([&] {
    const ringload_executor copy =
        ringload::c::read_struct(&required(executor, "the executor is null"));
    if (!copy.post)
      throw ringload::c::invalid_argument("the function 'post' of the executor is null");
    return set_callback(operation, copy, then, context);
  });
}

void ringload_operation_cancel(ringload_operation* operation) {
  if (!operation) return;
  guarded([&] {
    operation->state->cancel();
    return RINGLOAD_OK;
  });
}

void ringload_operation_release(ringload_operation* operation) {
  ringload_operation_cancel(operation);
  delete operation;
}

ringload_status ringload_operation_checkpoint(ringload_operation* operation,
                                              ringload_checkpoint** result) {
  return guarded([&] {
    required(result, "the output pointer for the checkpoint is null") = nullptr;
    return state_of(operation).with_result<ringload::checkpoint>(
        [&](const ringload::checkpoint& opened) {
          *result = new ringload_checkpoint{opened};
          return RINGLOAD_OK;
        });
  });
}

ringload_status ringload_operation_model(ringload_operation* operation, ringload_model** result) {
  return guarded([&] {
    required(result, "the output pointer for the model is null") = nullptr;
    return state_of(operation).with_result<ringload::model>([&](const ringload::model& loaded) {
      *result = new ringload_model{loaded};
      return RINGLOAD_OK;
    });
  });
}

ringload_status ringload_operation_tensor(ringload_operation* operation, ringload_tensor** result) {
  return guarded([&] {
    required(result, "the output pointer for the tensor is null") = nullptr;
    const auto hand_out = [&](const ringload::tensor& loaded) {
      *result = new ringload_tensor(loaded);
      return RINGLOAD_OK;
    };
    return state_of(operation).with_result<ringload::tensor>(hand_out);
  });
}

namespace {

// Moves the result, which must have type T, into a new handle.
template <class T, class Handle>
ringload_status take_result(ringload_operation* operation, Handle** result) {
  return guarded([&] {
    required(result, "the output pointer for the result is null") = nullptr;
    ringload::c::operation_state& state = state_of(operation);
    return state.with_result<T>([&](T& started) {
      auto shared = std::make_shared<T>(std::move(started));
      state.forget_result();
      *result = new Handle{state.thread(), std::move(shared)};
      return RINGLOAD_OK;
    });
  });
}

}  // namespace

ringload_status ringload_operation_loading(ringload_operation* operation,
                                           ringload_loading** result) {
  return take_result<ringload::load_operation>(operation, result);
}

ringload_status ringload_operation_tensor_stream(ringload_operation* operation,
                                                 ringload_tensor_stream** result) {
  return take_result<ringload::tensor_stream>(operation, result);
}
