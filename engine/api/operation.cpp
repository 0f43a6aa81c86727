// SPDX-License-Identifier: Apache-2.0

// The pending operations of the public API. Implements their completion, their cancellation, and
// their destruction with the execution context of the handler.

#include <new>
#include <ringload/detail/operation.hpp>
#include <ringload/error.hpp>
#include <ringload/fill.hpp>

namespace ringload::inline v0::detail {

std::exception_ptr exception_of(const boost::system::error_code& code, diagnostics& info) noexcept {
  try {
    error failure(code, info.place, info.cause);
    if (info.whole.empty() && info.torn.empty()) return std::make_exception_ptr(failure);
    return std::make_exception_ptr(
        fill_error(failure, std::move(info.whole), std::move(info.torn)));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(std::bad_alloc());
  }
}

void cancel_request::request() {
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    requested_ = true;
    wake.swap(wake_);
  }
  if (wake) wake();
}

void cancel_request::arm(std::function<void()> wake) {
  {
    const std::lock_guard lock(mutex_);
    if (!requested_) {
      wake_ = std::move(wake);
      return;
    }
  }
  wake();
}

pending_operation::pending_operation(std::shared_ptr<pending_list> list,
                                     std::unique_ptr<handler_body> body,
                                     std::shared_ptr<cancel_request> cancelled)
    : cancel(std::move(cancelled)), list_(std::move(list)), body_(std::move(body)) {
  std::unique_ptr<handler_body> unwanted;  // Destroys the body after the lock is released.
  const std::lock_guard lock(list_->mutex);
  if (list_->closed) {
    unwanted = std::move(body_);
    return;
  }
  next_ = list_->first;
  if (next_) next_->back_ = &next_;
  back_ = &list_->first;
  list_->first = this;
}

pending_operation::~pending_operation() {
  const std::lock_guard lock(list_->mutex);
  unlink();
}

pending_operation::claim pending_operation::take() {
  claim claimed;
  const std::lock_guard lock(list_->mutex);
  unlink();
  if (!body_) return claimed;
  claimed.body = std::move(body_);
  claimed.list.reset(list_.get());
  ++list_->posts;
  return claimed;
}

void pending_operation::end_post::operator()(pending_list* list) const noexcept {
  const std::lock_guard lock(list->mutex);
  --list->posts;
  if (list->closed) list->posts_ended.notify_all();
}

void pending_operation::unlink() noexcept {
  if (!back_) return;
  *back_ = next_;
  if (next_) next_->back_ = back_;
  next_ = nullptr;
  back_ = nullptr;
}

// Owns the list of pending operations of an execution context. When the context is destroyed, Asio
// calls shutdown().
class pending_service final : public boost::asio::execution_context::service {
 public:
  static boost::asio::execution_context::id id;

  explicit pending_service(boost::asio::execution_context& context)
      : service(context), list(std::make_shared<pending_list>()) {}

  const std::shared_ptr<pending_list> list;

 private:
  // Cancels all pending operations. The context no longer runs handlers, so the handlers are
  // destroyed without a call, as in Asio. Waits until no handler is being posted. The function must
  // not allocate memory, because an exception would end the process.
  void shutdown() override {
    for (;;) {
      std::unique_ptr<handler_body> body;
      std::shared_ptr<cancel_request> cancel;
      {
        std::unique_lock lock(list->mutex);
        list->closed = true;
        if (!list->first) {
          list->posts_ended.wait(lock, [this] { return list->posts == 0; });
          return;
        }
        pending_operation& op = *list->first;
        body = std::move(op.body_);
        cancel = op.cancel;
        op.unlink();
      }
      cancel->request();
    }
  }
};

boost::asio::execution_context::id pending_service::id;

std::shared_ptr<pending_list> pending_in(boost::asio::execution_context& context) {
  return boost::asio::use_service<pending_service>(context).list;
}

}  // namespace ringload::inline v0::detail
