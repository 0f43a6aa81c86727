// SPDX-License-Identifier: Apache-2.0
#pragma once

// A completion token that reports failures as exceptions instead of error codes.
//
//   ringload::model m = loader.load_async(path, ringload::as_exception(asio::use_future)).get();
//
// If the load fails, get() throws a `ringload::error`, which contains the place of the failure.
// Without as_exception, `asio::use_future` throws `boost::system::system_error`, which has only the
// error code. The default token of all operations is as_exception(asio::use_awaitable).

#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <exception>
#include <ringload/diagnostics.hpp>
#include <ringload/export.hpp>
#include <type_traits>
#include <utility>

namespace ringload::inline v0 {

/// Converts the signature `void(error_code, Ts...)` into `void(std::exception_ptr, Ts...)` for the
/// inner token. The exception is a `ringload::error`, a `fill_error` or a `std::bad_alloc`. Other
/// signatures are not converted.
template <class CompletionToken>
struct as_exception_t {
  /// Default-constructs the inner token. `default_token` uses this constructor.
  constexpr as_exception_t() = default;
  /// Stores the inner token.
  template <class T>
    requires(!std::is_same_v<std::decay_t<T>, as_exception_t>)
  constexpr explicit as_exception_t(T&& inner) : token(std::forward<T>(inner)) {}

  /// The inner token.
  CompletionToken token;
};

/// Wraps `token` in an as_exception_t.
template <class CompletionToken>
constexpr as_exception_t<std::decay_t<CompletionToken>> as_exception(CompletionToken&& token) {
  return as_exception_t<std::decay_t<CompletionToken>>(std::forward<CompletionToken>(token));
}

/// The completion token of operations that are called without a token. With this token, `co_await`
/// throws `ringload::error` if the operation fails.
using default_token = as_exception_t<boost::asio::use_awaitable_t<>>;

namespace detail {

// Returns the exception for `code`. `info` contains the place and the cause. Returns a
// std::bad_alloc if memory is exhausted.
RINGLOAD_EXPORT std::exception_ptr exception_of(const boost::system::error_code& code,
                                                diagnostics& info) noexcept;

template <class Handler>
class as_exception_handler {
 public:
  using diagnostics_type = diagnostics*;

  template <class H>
    requires(!std::is_same_v<std::decay_t<H>, as_exception_handler>)
  explicit as_exception_handler(H&& inner) : handler_(std::forward<H>(inner)) {}

  const Handler& handler() const noexcept { return handler_; }

  diagnostics_type get_diagnostics() const noexcept {
    diagnostics* const inner = get_associated_diagnostics(handler_);
    return inner ? inner : &info_;
  }

  template <class... Arguments>
  void operator()(const boost::system::error_code& code, Arguments&&... arguments) {
    std::exception_ptr failure;
    if (code) failure = exception_of(code, *get_diagnostics());
    std::move(handler_)(std::move(failure), std::forward<Arguments>(arguments)...);
  }

 private:
  Handler handler_;
  mutable diagnostics info_;
};

template <class Initiation>
struct as_exception_initiation : wrapped_initiation<Initiation> {
  template <class Handler, class... Arguments>
  void operator()(Handler&& handler, Arguments&&... arguments) {
    std::move(this->initiation)(
        as_exception_handler<std::decay_t<Handler>>(std::forward<Handler>(handler)),
        std::forward<Arguments>(arguments)...);
  }
  template <class Handler, class... Arguments>
  void operator()(Handler&& handler, Arguments&&... arguments) const {
    as_exception_initiation copy(*this);
    copy(std::forward<Handler>(handler), std::forward<Arguments>(arguments)...);
  }
};

}  // namespace detail

}  // namespace ringload::inline v0

template <class T, class... Ts>
class boost::asio::async_result<ringload::as_exception_t<T>, void(boost::system::error_code, Ts...)>
    : public ringload::detail::inner_return_type<async_result<T, void(std::exception_ptr, Ts...)>> {
 public:
  template <class Initiation, class Token, class... Arguments>
  static auto initiate(Initiation&& initiation, Token&& token, Arguments&&... arguments) {
    using wrapper = ringload::detail::as_exception_initiation<std::decay_t<Initiation>>;
    return async_initiate<ringload::detail::const_as<T, Token>, void(std::exception_ptr, Ts...)>(
        wrapper{{std::forward<Initiation>(initiation)}}, token.token,
        std::forward<Arguments>(arguments)...);
  }
};

template <class T, class Signature>
class boost::asio::async_result<ringload::as_exception_t<T>, Signature>
    : public ringload::detail::inner_return_type<async_result<T, Signature>> {
 public:
  template <class Initiation, class Token, class... Arguments>
  static auto initiate(Initiation&& initiation, Token&& token, Arguments&&... arguments) {
    return async_initiate<ringload::detail::const_as<T, Token>, Signature>(
        std::forward<Initiation>(initiation), token.token, std::forward<Arguments>(arguments)...);
  }
};

template <template <class, class> class Associator, class Handler, class Default>
struct boost::asio::associator<Associator, ringload::detail::as_exception_handler<Handler>, Default>
    : Associator<Handler, Default> {
  using handler_type = ringload::detail::as_exception_handler<Handler>;

  static auto get(const handler_type& h) noexcept {
    return Associator<Handler, Default>::get(h.handler());
  }
  static decltype(auto) get(const handler_type& h, const Default& d) noexcept {
    return Associator<Handler, Default>::get(h.handler(), d);
  }
};
