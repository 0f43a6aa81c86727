// SPDX-License-Identifier: Apache-2.0
#include "c/operation.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <cerrno>
#include <chrono>

namespace ringload::c {

completion_thread::completion_thread()
    : context_(std::make_shared<boost::asio::io_context>(1)),
      work_(context_->get_executor()),
      thread_([context = context_] { context->run(); }) {}

completion_thread::~completion_thread() {
  work_.reset();
  if (is_this()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

operation_state::~operation_state() {
  if (event_ >= 0) close(event_);
}

void operation_state::end(std::exception_ptr failure, any_result result) noexcept {
  void (*then)(void*, ringload_status) = nullptr;
  void* context = nullptr;
  ringload_status status = RINGLOAD_OK;
  {
    const std::scoped_lock lock(mutex_);
    if (has_ended_) return;
    has_ended_ = true;
    failure_ = std::move(failure);
    result_ = std::move(result);
    if (event_ >= 0) eventfd_write(event_, 1);
    then = std::exchange(then_, nullptr);
    context = then_context_;
    status = status_locked();
    ended_.notify_all();
  }
  if (then) then(context, status);
}

ringload_status operation_state::status_locked() const noexcept {
  if (!has_ended_) return RINGLOAD_PENDING;
  if (failure_) return report(failure_);
  const tensor* const next = std::get_if<tensor>(&result_);
  return next && !*next ? RINGLOAD_END : RINGLOAD_OK;
}

ringload_status operation_state::status() const noexcept {
  const std::scoped_lock lock(mutex_);
  return status_locked();
}

std::exception_ptr operation_state::failure() const noexcept {
  const std::scoped_lock lock(mutex_);
  return failure_;
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
    // Limits the wait to a century, because the clock's range would overflow.
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

void operation_state::on_end(void (*then)(void*, ringload_status), void* context) {
  const std::scoped_lock lock(mutex_);
  if (then_) throw invalid_argument("the operation has a callback already");
  if (!has_ended_) {
    then_ = then;
    then_context_ = context;
    return;
  }
  boost::asio::post(thread_->context(),
                    [self = shared_from_this(), then, context] { then(context, self->status()); });
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

}  // namespace

ringload_status ringload_operation_wait(ringload_operation* operation, int64_t milliseconds) {
  return guarded([&] { return state_of(operation).wait(milliseconds); });
}

ringload_status ringload_operation_status(const ringload_operation* operation) {
  return guarded([&] { return state_of(operation).status(); });
}

ringload_status ringload_operation_descriptor(ringload_operation* operation, int* descriptor) {
  return guarded([&] {
    required(descriptor, "the place for the descriptor is null") = state_of(operation).descriptor();
    return RINGLOAD_OK;
  });
}

ringload_status ringload_operation_on_end(ringload_operation* operation,
                                          void (*then)(void* context, ringload_status status),
                                          void* context) {
  return guarded([&] {
    if (!then) throw ringload::c::invalid_argument("the callback is null");
    state_of(operation).on_end(then, context);
    return RINGLOAD_OK;
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
    required(result, "the place for the checkpoint is null") = nullptr;
    return state_of(operation).with_result<ringload::checkpoint>(
        [&](const ringload::checkpoint& opened) {
          *result = new ringload_checkpoint{opened};
          return RINGLOAD_OK;
        });
  });
}

ringload_status ringload_operation_model(ringload_operation* operation, ringload_model** result) {
  return guarded([&] {
    required(result, "the place for the model is null") = nullptr;
    return state_of(operation).with_result<ringload::model>([&](const ringload::model& loaded) {
      *result = new ringload_model{loaded};
      return RINGLOAD_OK;
    });
  });
}

ringload_status ringload_operation_tensor(ringload_operation* operation, ringload_tensor** result) {
  return guarded([&] {
    required(result, "the place for the tensor is null") = nullptr;
    const auto give = [&](const ringload::tensor& loaded) {
      *result = new ringload_tensor(loaded);
      return RINGLOAD_OK;
    };
    return state_of(operation).with_result<ringload::tensor>(give);
  });
}

ringload_status ringload_operation_loading(ringload_operation* operation,
                                           ringload_loading** result) {
  return guarded([&] {
    required(result, "the place for the loading is null") = nullptr;
    ringload::c::operation_state& state = state_of(operation);
    return state.with_result<ringload::load_operation>([&](ringload::load_operation& started) {
      auto shared = std::make_shared<ringload::load_operation>(std::move(started));
      state.forget_result();
      *result = new ringload_loading{state.thread(), std::move(shared)};
      return RINGLOAD_OK;
    });
  });
}
