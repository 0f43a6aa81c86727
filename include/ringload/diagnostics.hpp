// SPDX-License-Identifier: Apache-2.0
#pragma once

// Provides the place and the cause of a failure, in addition to the error_code.
//
//   ringload::diagnostics where;
//   auto [code, model] = co_await loader.load_async(
//       path, ringload::bind_diagnostics(where, asio::as_tuple(asio::use_awaitable)));
//   if (code) std::puts(where.message().c_str());

#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/system/error_code.hpp>
#include <concepts>
#include <exception>
#include <ringload/export.hpp>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ringload::inline v0 {

/// The place and the cause of a failure.
struct diagnostics {
  std::string place;  // The file, and the tensor or the byte in the file. May be empty.
  std::string cause;  // For example, "the header is not valid UTF-8".
  /// The complete destinations of a fill that failed after its first write: see `fill_error`.
  std::vector<std::string> whole = {};
  /// The destinations of the failed fill that may contain old bytes, new bytes, or both.
  std::vector<std::string> torn = {};

  /// Returns "place: cause", which is also the text of `ringload::error`.
  std::string message() const { return place.empty() ? cause : place + ": " + cause; }
};

template <class T, class Default>
struct associated_diagnostics;

namespace detail {

template <class T, class Default, class = void>
struct find_diagnostics {
  using type = Default;
  static type get(const T&) noexcept { return {}; }
  static type get(const T&, const Default& fallback) noexcept { return fallback; }
};

template <class T, class Default>
struct find_diagnostics<T, Default, std::void_t<typename T::diagnostics_type>> {
  using type = typename T::diagnostics_type;
  static type get(const T& t) noexcept { return t.get_diagnostics(); }
  static type get(const T& t, const Default&) noexcept { return t.get_diagnostics(); }
};

template <class T, class Default>
  requires(!requires { typename T::diagnostics_type; })
struct find_diagnostics<
    T, Default,
    std::void_t<typename boost::asio::associator<associated_diagnostics, T, Default>::type>>
    : boost::asio::associator<associated_diagnostics, T, Default> {};

// Returns false if the arguments of a handler report a success. Returns true if they report a
// failure, or if their types do not show the outcome. This is the case inside
// `asio::redirect_error`, which removes the error code.
inline bool may_have_failed() noexcept { return true; }
template <class First, class... Rest>
bool may_have_failed(const First& first, const Rest&...) noexcept {
  if constexpr (std::is_same_v<First, boost::system::error_code> ||
                std::is_same_v<First, std::exception_ptr>) {
    return static_cast<bool>(first);
  } else {
    return true;
  }
}
// `asio::as_tuple` passes all arguments as one tuple.
template <class First, class... Rest>
bool may_have_failed(const std::tuple<First, Rest...>& arguments) noexcept {
  return may_have_failed(std::get<0>(arguments));
}

}  // namespace detail

/// Finds the diagnostics of a handler. This template is an Asio associator. Therefore the
/// diagnostics of a binder or an adaptor are the diagnostics of its inner handler. A handler with
/// diagnostics has a type `diagnostics_type`, which is a pointer to diagnostics, and a function
/// `get_diagnostics()`. Handlers with an erased type, such as `any_completion_handler`, lose their
/// diagnostics.
template <class T, class Default = diagnostics*>
struct associated_diagnostics : detail::find_diagnostics<T, Default> {};

/// Returns the diagnostics of a handler, or null if the handler has no diagnostics.
template <class T>
diagnostics* get_associated_diagnostics(const T& t) noexcept {
  return associated_diagnostics<T>::get(t);
}

/// A completion token, or a handler, with the diagnostics of its operation.
template <class T>
class diagnostics_binder {
 public:
  /// Required by `associated_diagnostics`, which recognises this class by this member type.
  using diagnostics_type = diagnostics*;
  /// The inner token or handler.
  using target_type = T;

  /// Stores the inner token or handler, and the address of `output`.
  template <class U>
  diagnostics_binder(diagnostics& output, U&& target)
      : output_(&output), target_(std::forward<U>(target)) {}

  /// Returns the inner token or handler.
  target_type& get() noexcept { return target_; }
  /// Returns the inner token or handler.
  const target_type& get() const noexcept { return target_; }
  /// Returns the address of the diagnostics.
  diagnostics_type get_diagnostics() const noexcept { return output_; }

  /// After a failure, copies the diagnostics to the diagnostics of the inner handler, if the inner
  /// handler has any. Then calls the inner handler.
  template <class... Arguments>
  void operator()(Arguments&&... arguments) {
    // The target may have diagnostics too, for example if it contains as_exception.
    diagnostics* const inner = get_associated_diagnostics(target_);
    if (inner && detail::may_have_failed(arguments...)) *inner = *output_;
    std::move(target_)(std::forward<Arguments>(arguments)...);
  }

 private:
  diagnostics* output_;
  T target_;
};

/// Returns a completion token that stores the place and the cause of a failure in `output`. The
/// texts are stored on the handler's executor, before the handler is called. The caller must keep
/// `output` alive until the handler is called. If the operation succeeds, `output` is not changed.
template <class CompletionToken>
diagnostics_binder<std::decay_t<CompletionToken>> bind_diagnostics(diagnostics& output,
                                                                   CompletionToken&& token) {
  return {output, std::forward<CompletionToken>(token)};
}

namespace detail {

// Base of an initiation that wraps another initiation. The wrapper has the executor of the inner
// initiation.
template <class Initiation>
struct wrapped_initiation {
  Initiation initiation;

  auto get_executor() const noexcept
    requires requires(const Initiation& i) { i.get_executor(); }
  {
    return initiation.get_executor();
  }
};

template <class Initiation>
struct bind_diagnostics_initiation : wrapped_initiation<Initiation> {
  template <class Handler, class... Arguments>
  void operator()(Handler&& handler, diagnostics* output, Arguments&&... arguments) {
    std::move(this->initiation)(
        diagnostics_binder<std::decay_t<Handler>>(*output, std::forward<Handler>(handler)),
        std::forward<Arguments>(arguments)...);
  }
  template <class Handler, class... Arguments>
  void operator()(Handler&& handler, diagnostics* output, Arguments&&... arguments) const {
    bind_diagnostics_initiation copy(*this);
    copy(std::forward<Handler>(handler), output, std::forward<Arguments>(arguments)...);
  }
};

// The type const T if `Outer` is const, and otherwise T.
template <class T, class Outer>
using const_as = std::conditional_t<std::is_const_v<std::remove_reference_t<Outer>>, const T, T>;

// Binders of Boost 1.81 require the type `return_type` of their inner async_result.
template <class Result, class = void>
struct inner_return_type {};
template <class Result>
struct inner_return_type<Result, std::void_t<typename Result::return_type>> {
  using return_type = typename Result::return_type;
};

}  // namespace detail

}  // namespace ringload::inline v0

template <class T, class Signature>
class boost::asio::async_result<ringload::diagnostics_binder<T>, Signature>
    : public ringload::detail::inner_return_type<async_result<T, Signature>> {
 public:
  template <class Initiation, class Token, class... Arguments>
  static auto initiate(Initiation&& initiation, Token&& token, Arguments&&... arguments) {
    using wrapper = ringload::detail::bind_diagnostics_initiation<std::decay_t<Initiation>>;
    return async_initiate<ringload::detail::const_as<T, Token>, Signature>(
        wrapper{{std::forward<Initiation>(initiation)}}, token.get(), token.get_diagnostics(),
        std::forward<Arguments>(arguments)...);
  }
};

template <template <class, class> class Associator, class T, class Default>
struct boost::asio::associator<Associator, ringload::diagnostics_binder<T>, Default>
    : Associator<T, Default> {
  static auto get(const ringload::diagnostics_binder<T>& b) noexcept {
    return Associator<T, Default>::get(b.get());
  }
  static decltype(auto) get(const ringload::diagnostics_binder<T>& b, const Default& d) noexcept {
    return Associator<T, Default>::get(b.get(), d);
  }
};
