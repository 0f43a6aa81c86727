// SPDX-License-Identifier: Apache-2.0
#pragma once

// An asynchronous operation: a completion handler that waits for the engine's result.
//
//   initiating thread     creates it: binds executor, allocator, cancellation slot
//   engine thread         complete(): posts the handler to its own executor, never runs it
//   any thread            cancel_request::request(), from the cancellation slot
//   destruction of the    destroys the handler if it was not completed; the engine's complete()
//   handler's context     then does nothing
//
// Only the handler's type is erased, so the engine is compiled once for all completion tokens.

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/system_executor.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <ringload/export.hpp>
#include <type_traits>
#include <utility>

namespace ringload::inline v0::detail {

/// Passes a cancellation from the requesting thread to the engine. request() and arm() may come in
/// any order.
class RINGLOAD_EXPORT cancel_request {
 public:
  /// Calls the function of `arm`, at most once. May be called from any thread.
  void request();
  /// Calls `wake` at once if cancellation was requested already.
  void arm(std::function<void()> wake);

 private:
  std::mutex mutex_;
  bool requested_ = false;  // Guarded by mutex_, as the next member.
  std::function<void()> wake_;
};

/// A handler with erased type.
class handler_body {
 public:
  virtual ~handler_body() = default;
};

template <class T>
class handler_body_for : public handler_body {
 public:
  // `self` is this body. The ownership moves with the handler, so that the handler is destroyed on
  // its own executor, not in the engine thread.
  virtual void post(std::unique_ptr<handler_body> self, std::exception_ptr failure, T value) = 0;
};

class pending_operation;

/// The operations whose handlers run in one execution context, so that the destruction of the
/// context can destroy them.
class RINGLOAD_EXPORT pending_list {
 public:
  std::mutex mutex;

  // The mutex guards the members below.
  bool closed = false;
  pending_operation* first = nullptr;
};

class RINGLOAD_EXPORT pending_operation {
 public:
  pending_operation(std::shared_ptr<pending_list> in, std::unique_ptr<handler_body> body,
                    std::shared_ptr<cancel_request> cancelled);
  pending_operation(const pending_operation&) = delete;
  pending_operation& operator=(const pending_operation&) = delete;
  virtual ~pending_operation();

  const std::shared_ptr<cancel_request> cancel;

 protected:
  // Holds the list's lock while the handler is posted, so that the handler's context cannot be
  // destroyed meanwhile.
  struct claim {
    std::unique_lock<std::mutex> lock;
    std::unique_ptr<handler_body> body;  // Empty: destroyed with its context.
  };
  claim take();

 private:
  friend class pending_service;

  void unlink() noexcept;

  const std::shared_ptr<pending_list> in_;
  std::unique_ptr<handler_body> body_;
  pending_operation* next_ = nullptr;
  pending_operation** back_ = nullptr;
};

/// Returns the list of the context in which `executor` runs handlers.
RINGLOAD_EXPORT std::shared_ptr<pending_list> pending_in(boost::asio::execution_context& context);

template <class T>
class operation final : public pending_operation {
 public:
  operation(std::shared_ptr<pending_list> in, std::unique_ptr<handler_body_for<T>> body,
            std::shared_ptr<cancel_request> cancelled)
      : pending_operation(std::move(in), std::move(body), std::move(cancelled)) {}

  /// Posts the handler to its executor. Must be called once, from any thread.
  void complete(std::exception_ptr failure, T value) {
    claim claimed = take();
    if (!claimed.body) return;
    auto& body = static_cast<handler_body_for<T>&>(*claimed.body);
    body.post(std::move(claimed.body), std::move(failure), std::move(value));
  }
};

template <class Executor>
boost::asio::execution_context* context_of(const Executor& executor) {
  if constexpr (boost::asio::can_query<const Executor&, boost::asio::execution::context_t>::value) {
    return &static_cast<boost::asio::execution_context&>(
        boost::asio::query(executor, boost::asio::execution::context));
  } else {
    return &static_cast<boost::asio::execution_context&>(executor.context());
  }
}

// For handlers without an associated executor.
using default_executor = boost::asio::system_executor;

template <class T, class Handler>
class handler_body_of final : public handler_body_for<T> {
 public:
  using executor_type = boost::asio::associated_executor_t<Handler, default_executor>;
  using allocator_type = boost::asio::associated_allocator_t<Handler>;

  explicit handler_body_of(Handler&& handler)
      : work_(boost::asio::get_associated_executor(handler, default_executor())),
        handler_(std::move(handler)) {}

  executor_type executor() const noexcept { return work_.get_executor(); }

  void post(std::unique_ptr<handler_body> self, std::exception_ptr failure, T value) override {
    const executor_type target = executor();
    const allocator_type memory = boost::asio::get_associated_allocator(handler_);
    std::unique_ptr<handler_body_of> body(static_cast<handler_body_of*>(self.release()));
    boost::asio::post(target, call(std::move(body), std::move(failure), std::move(value), memory));
  }

 private:
  // Runs on the handler's executor.
  class call {
   public:
    using allocator_type = handler_body_of::allocator_type;

    call(std::unique_ptr<handler_body_of> body, std::exception_ptr failure, T value,
         const allocator_type& memory)
        : body_(std::move(body)),
          failure_(std::move(failure)),
          value_(std::move(value)),
          memory_(memory) {}

    allocator_type get_allocator() const noexcept { return memory_; }

    void operator()() {
      auto slot = boost::asio::get_associated_cancellation_slot(body_->handler_);
      if (slot.is_connected()) slot.clear();
      Handler handler(std::move(body_->handler_));
      body_.reset();
      std::move(handler)(std::move(failure_), std::move(value_));
    }

   private:
    std::unique_ptr<handler_body_of> body_;
    std::exception_ptr failure_;
    T value_;
    allocator_type memory_;
  };

  boost::asio::executor_work_guard<executor_type> work_;
  Handler handler_;
};

/// Binds the handler's associated executor, allocator and cancellation slot. The slot is connected
/// before this function returns, so before the handler can run.
template <class T, class Handler>
std::unique_ptr<operation<T>> make_operation(Handler&& handler) {
  using handler_type = std::decay_t<Handler>;
  auto cancel = std::make_shared<cancel_request>();
  auto slot = boost::asio::get_associated_cancellation_slot(handler);
  if (slot.is_connected()) {
    slot.assign([cancel](boost::asio::cancellation_type) { cancel->request(); });
  }
  auto body = std::make_unique<handler_body_of<T, handler_type>>(
      handler_type(std::forward<Handler>(handler)));
  auto list = pending_in(*context_of(body->executor()));
  return std::make_unique<operation<T>>(std::move(list), std::move(body), std::move(cancel));
}

}  // namespace ringload::inline v0::detail
