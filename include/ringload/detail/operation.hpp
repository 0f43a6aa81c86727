// SPDX-License-Identifier: Apache-2.0
#pragma once

// An asynchronous operation stores a completion handler until the engine has a result.
//
//   initiating thread     creates the operation: binds executor, allocator, cancellation slot
//   engine thread         complete(): posts the handler to the handler's executor
//   any thread            cancel_request::request(), from the cancellation slot
//   destruction of the    destroys the handler of a pending operation. A later complete() does
//   handler's context     nothing.
//
// The type of the handler is erased, so the engine is compiled once for all completion tokens.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/executor.hpp>
#include <boost/asio/execution/relationship.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/system/error_code.hpp>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <ringload/as_exception.hpp>
#include <ringload/diagnostics.hpp>
#include <ringload/export.hpp>
#include <type_traits>
#include <utility>

namespace ringload::inline v0::detail {

/// Passes a cancellation from any thread to the engine. request() and arm() may be called in any
/// order.
class RINGLOAD_EXPORT cancel_request {
 public:
  /// Requests cancellation. Calls the function that was passed to arm(), at most once. Thread-safe.
  void request();
  /// Makes `wake` the function that request() calls. If cancellation was already requested, calls
  /// `wake` at once.
  void arm(std::function<void()> wake);

 private:
  std::mutex mutex_;
  bool requested_ = false;  // mutex_ guards requested_ and wake_.
  std::function<void()> wake_;
};

/// The error code of a failure, with its place and cause.
struct RINGLOAD_EXPORT operation_failure {
  boost::system::error_code code;
  /// Shared by all operations that fail for the same reason. Null if only the code is known.
  std::shared_ptr<const diagnostics> texts;

  /// Copies the texts to `into`. If the cause is unknown, `into` receives the message of the code.
  /// If memory is exhausted, `into` receives no text.
  void describe(diagnostics& into) const noexcept;
};

/// Base of all handlers. Erases the type of the handler.
class handler_body {
 public:
  virtual ~handler_body() = default;
};

template <class T>
class handler_body_for : public handler_body {
 public:
  // Posts the handler to its executor. `self` must own this object. The executor receives the
  // handler and the ownership. Therefore the handler is destroyed on the handler's executor, not in
  // the engine thread.
  virtual void post(std::unique_ptr<handler_body> self, operation_failure failure, T value) = 0;
};

class pending_operation;

/// Lists the pending operations whose handlers run in one execution context. The destructor of the
/// context destroys the handlers of the listed operations.
class RINGLOAD_EXPORT pending_list {
 public:
  std::mutex mutex;

  // The mutex guards the members below.
  bool closed = false;
  pending_operation* first = nullptr;
  std::size_t posts = 0;  // The number of handlers that are being posted.
  std::condition_variable posts_ended;
};

class RINGLOAD_EXPORT pending_operation {
 public:
  pending_operation(std::shared_ptr<pending_list> list, std::unique_ptr<handler_body> body,
                    std::shared_ptr<cancel_request> cancelled);
  pending_operation(const pending_operation&) = delete;
  pending_operation& operator=(const pending_operation&) = delete;
  virtual ~pending_operation();

  const std::shared_ptr<cancel_request> cancel;

 protected:
  struct RINGLOAD_EXPORT end_post {
    void operator()(pending_list* list) const noexcept;
  };
  // Exclusive access to the handler of an operation. The destruction of the handler's context waits
  // until the claim is destroyed. The mutex of the list must not be locked while the handler is
  // posted: if post() fails for lack of memory, it destroys the handler, whose destructor may start
  // or end other operations.
  struct claim {
    std::unique_ptr<pending_list, end_post> list;
    std::unique_ptr<handler_body> body;  // If null, the handler was destroyed with its context.
  };
  claim take();

 private:
  friend class pending_service;

  void unlink() noexcept;

  const std::shared_ptr<pending_list> list_;
  std::unique_ptr<handler_body> body_;
  pending_operation* next_ = nullptr;
  pending_operation** back_ = nullptr;
};

/// Returns the list of pending operations of `context`.
RINGLOAD_EXPORT std::shared_ptr<pending_list> pending_in(boost::asio::execution_context& context);

template <class T>
class operation final : public pending_operation {
 public:
  operation(std::shared_ptr<pending_list> list, std::unique_ptr<handler_body_for<T>> body,
            std::shared_ptr<cancel_request> cancelled)
      : pending_operation(std::move(list), std::move(body), std::move(cancelled)) {}

  /// complete() and fail() post the handler to its executor. The engine must call one of these
  /// functions, exactly once, from any thread.
  void complete(T value) { post(operation_failure(), std::move(value)); }
  void fail(operation_failure failure) { post(std::move(failure), T()); }

 private:
  void post(operation_failure failure, T value) {
    claim claimed = take();
    if (!claimed.body) return;
    auto& body = static_cast<handler_body_for<T>&>(*claimed.body);
    body.post(std::move(claimed.body), std::move(failure), std::move(value));
  }
};

// True for executors that do not support blocking.never, such as any_completion_executor. An
// executor of this kind may run a function inline. Therefore the handler is first posted to the
// loader's executor.
template <class Executor>
inline constexpr bool needs_first_executor =
    boost::asio::execution::is_executor<Executor>::value &&
    !boost::asio::can_require<Executor, boost::asio::execution::blocking_t::never_t>::value;

// Posts `function` to `executor`. boost::asio::post() is not used, because its dispatcher takes
// several times longer to compile.
template <class Executor, class Function, class Allocator>
void post_to(const Executor& executor, Function&& function, const Allocator& allocator) {
  if constexpr (boost::asio::execution::is_executor<Executor>::value) {
    boost::asio::prefer(boost::asio::require(executor, boost::asio::execution::blocking.never),
                        boost::asio::execution::relationship.fork,
                        boost::asio::execution::allocator(allocator))
        .execute(std::forward<Function>(function));
  } else {
    executor.post(std::forward<Function>(function), allocator);
  }
}

template <class Executor>
boost::asio::execution_context* context_of(const Executor& executor) {
  if constexpr (boost::asio::can_query<const Executor&, boost::asio::execution::context_t>::value) {
    return &static_cast<boost::asio::execution_context&>(
        boost::asio::query(executor, boost::asio::execution::context));
  } else {
    return &static_cast<boost::asio::execution_context&>(executor.context());
  }
}

// Converts the value from the engine to the result of the operation. The two types differ if the
// result contains the executor of the object that started the operation.
template <class T, class Executor>
struct result_conversion {
  using value_type = T;

  explicit result_conversion(const Executor&) noexcept {}
  T&& operator()(T&& value) const noexcept { return std::move(value); }
};
template <class T, class Executor>
  requires requires { typename T::engine_value; }
struct result_conversion<T, Executor> {
  using value_type = typename T::engine_value;

  Executor executor;

  explicit result_conversion(const Executor& e) : executor(e) {}
  T operator()(value_type&& value) const { return T(std::move(value), executor); }
};

// The type of the operation that the engine completes, if the handler receives a T.
template <class T, class Executor>
using operation_for = operation<typename result_conversion<T, Executor>::value_type>;

// Holds a handler of type `Handler`. A handler without an associated executor runs on `Executor`.
template <class T, class Handler, class Executor>
class handler_body_of final
    : public handler_body_for<typename result_conversion<T, Executor>::value_type> {
 public:
  using value_type = typename result_conversion<T, Executor>::value_type;
  using executor_type = boost::asio::associated_executor_t<Handler, Executor>;
  using allocator_type = boost::asio::associated_allocator_t<Handler>;

  handler_body_of(Handler&& handler, const Executor& fallback)
      : work_(boost::asio::get_associated_executor(handler, fallback)),
        first_work_(first_of(work_.get_executor(), fallback)),
        convert_(fallback),
        handler_(std::move(handler)) {}

  executor_type executor() const noexcept { return work_.get_executor(); }
  // Returns the context whose destruction destroys the handler.
  boost::asio::execution_context* context() const noexcept {
    return context_of(first_work_.get_executor());
  }

  void post(std::unique_ptr<handler_body> self, operation_failure failure,
            value_type value) override {
    const executor_type target = executor();
    const allocator_type memory = boost::asio::get_associated_allocator(handler_);
    std::unique_ptr<handler_body_of> body(static_cast<handler_body_of*>(self.release()));
    const first_type first = first_work_.get_executor();
    call completion(std::move(body), std::move(failure), std::move(value), memory);
    if constexpr (passes_first) {
      auto forward = [target, completion = std::move(completion)]() mutable {
        target.execute(std::move(completion));
      };
      post_to(first, std::move(forward), memory);
    } else {
      post_to(target, std::move(completion), memory);
    }
  }

 private:
  static constexpr bool passes_first = needs_first_executor<executor_type>;
  using first_type = std::conditional_t<passes_first, Executor, executor_type>;

  static first_type first_of(const executor_type& target, const Executor& fallback) noexcept {
    if constexpr (passes_first) {
      return fallback;
    } else {
      return target;
    }
  }

  // The function object that calls the handler. Runs on the handler's executor.
  class call {
   public:
    using allocator_type = handler_body_of::allocator_type;

    call(std::unique_ptr<handler_body_of> body, operation_failure failure, value_type value,
         const allocator_type& memory)
        : body_(std::move(body)),
          failure_(std::move(failure)),
          value_(std::move(value)),
          memory_(memory) {}

    // Not inlined, because g++ 12 would warn of an uninitialised value in an empty std::optional.
    [[gnu::noinline]] call(call&& source) = default;

    allocator_type get_allocator() const noexcept { return memory_; }

    void operator()() {
      auto slot = boost::asio::get_associated_cancellation_slot(body_->handler_);
      if (slot.is_connected()) slot.clear();
      if (failure_.code) {
        diagnostics* const info = get_associated_diagnostics(body_->handler_);
        if (info) failure_.describe(*info);
      }
      Handler handler(std::move(body_->handler_));
      const result_conversion<T, Executor> convert = body_->convert_;
      body_.reset();
      std::move(handler)(failure_.code, convert(std::move(value_)));
    }

   private:
    std::unique_ptr<handler_body_of> body_;
    operation_failure failure_;
    value_type value_;
    allocator_type memory_;
  };

  boost::asio::executor_work_guard<executor_type> work_;
  boost::asio::executor_work_guard<first_type> first_work_;
  [[no_unique_address]] result_conversion<T, Executor> convert_;
  Handler handler_;
};

/// Creates an operation with the handler's associated executor, allocator and cancellation slot.
/// The slot is connected before this function returns, and therefore before the handler can run. A
/// cancellation is ignored if its type is not in `cancellations`.
template <class T, class Handler, class Executor>
std::unique_ptr<operation_for<T, Executor>> make_operation(
    Handler&& handler, const Executor& fallback, boost::asio::cancellation_type cancellations) {
  using boost::asio::cancellation_type;
  using handler_type = std::decay_t<Handler>;
  auto cancel = std::make_shared<cancel_request>();
  auto slot = boost::asio::get_associated_cancellation_slot(handler);
  if (slot.is_connected()) {
    slot.assign([cancel, cancellations](cancellation_type type) {
      if ((type & cancellations) != cancellation_type::none) cancel->request();
    });
  }
  auto body = std::make_unique<handler_body_of<T, handler_type, Executor>>(
      handler_type(std::forward<Handler>(handler)), fallback);
  auto list = pending_in(*body->context());
  return std::make_unique<operation_for<T, Executor>>(std::move(list), std::move(body),
                                                      std::move(cancel));
}

template <class T>
using signature = void(boost::system::error_code, T);

// The cancellation types that an operation accepts. An operation without side effects accepts all
// types.
inline constexpr auto cancel_by_any = boost::asio::cancellation_type::all;
// Total cancellation promises that a cancelled operation has no side effects. An operation that
// cannot keep this promise ignores total cancellation.
inline constexpr auto cancel_with_effects =
    boost::asio::cancellation_type::terminal | boost::asio::cancellation_type::partial;
inline constexpr auto cancel_never = boost::asio::cancellation_type::none;

// Starts an operation by calling Begin(object, arguments..., operation). Stores `object` by
// value, because a completion token may start the operation later or never.
template <class T, auto Begin, boost::asio::cancellation_type Cancellations, class Executor,
          class Object>
class initiation {
 public:
  using executor_type = Executor;

  initiation(const Executor& executor, Object object)
      : executor_(executor), object_(std::move(object)) {}

  executor_type get_executor() const noexcept { return executor_; }

  template <class Handler, class... Arguments>
  void operator()(Handler&& handler, Arguments&&... arguments) const {
    Begin(object_, std::forward<Arguments>(arguments)...,
          make_operation<T>(std::forward<Handler>(handler), executor_, Cancellations));
  }

 private:
  Executor executor_;
  Object object_;
};

template <class T, auto Begin, boost::asio::cancellation_type Cancellations = cancel_by_any,
          class CompletionToken, class Executor, class Object, class... Arguments>
auto initiate(CompletionToken&& token, const Executor& executor, Object object,
              Arguments&&... arguments) {
  return boost::asio::async_initiate<CompletionToken, signature<T>>(
      initiation<T, Begin, Cancellations, Executor, Object>(executor, std::move(object)), token,
      std::forward<Arguments>(arguments)...);
}

// The default completion token of an executor (`as_default_on`). If the executor has no default
// token, this is ringload's default token.
template <class Executor>
struct default_token_of {
  using type = default_token;
};
template <class Executor>
  requires requires { typename Executor::default_completion_token_type; }
struct default_token_of<Executor> {
  using type = typename Executor::default_completion_token_type;
};

}  // namespace ringload::inline v0::detail
