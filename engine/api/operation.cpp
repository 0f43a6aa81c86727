// SPDX-License-Identifier: Apache-2.0
#include <ringload/detail/operation.hpp>
#include <vector>

namespace ringload::inline v0::detail {

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
    : cancel(std::move(cancelled)), in_(std::move(list)), body_(std::move(body)) {
  std::unique_ptr<handler_body> unwanted;  // Destroyed after the lock is released.
  const std::lock_guard lock(in_->mutex);
  if (in_->closed) {
    unwanted = std::move(body_);
    return;
  }
  next_ = in_->first;
  if (next_) next_->back_ = &next_;
  back_ = &in_->first;
  in_->first = this;
}

pending_operation::~pending_operation() {
  const std::lock_guard lock(in_->mutex);
  unlink();
}

pending_operation::claim pending_operation::take() {
  claim claimed;
  claimed.lock = std::unique_lock(in_->mutex);
  unlink();
  claimed.body = std::move(body_);
  return claimed;
}

void pending_operation::unlink() noexcept {
  if (!back_) return;
  *back_ = next_;
  if (next_) next_->back_ = back_;
  next_ = nullptr;
  back_ = nullptr;
}

// An Asio service: shut down when its execution context is destroyed.
class pending_service final : public boost::asio::execution_context::service {
 public:
  static boost::asio::execution_context::id id;

  explicit pending_service(boost::asio::execution_context& context)
      : service(context), list(std::make_shared<pending_list>()) {}

  const std::shared_ptr<pending_list> list;

 private:
  struct orphan {
    std::unique_ptr<handler_body> body;
    std::shared_ptr<cancel_request> cancel;
  };

  // No handler can run any more. The handlers are destroyed, as Asio destroys its own handlers, and
  // their operations are cancelled.
  void shutdown() override {
    std::vector<orphan> orphans;
    {
      const std::lock_guard lock(list->mutex);
      list->closed = true;
      while (list->first) {
        pending_operation& op = *list->first;
        orphans.push_back({std::move(op.body_), op.cancel});
        op.unlink();
      }
    }
    for (orphan& o : orphans) {
      o.cancel->request();
      o.body.reset();
    }
  }
};

boost::asio::execution_context::id pending_service::id;

std::shared_ptr<pending_list> pending_in(boost::asio::execution_context& context) {
  return boost::asio::use_service<pending_service>(context).list;
}

}  // namespace ringload::inline v0::detail
