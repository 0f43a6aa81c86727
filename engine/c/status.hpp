// SPDX-License-Identifier: Apache-2.0
#pragma once

// Turns exceptions of the C++ interface into the status and the per-thread text of the C interface.

#include <ringload/c.h>

#include <cstddef>
#include <exception>
#include <ringload/export.hpp>
#include <string>
#include <utility>

namespace ringload::c {

/// Invalid arguments of a call, for example a null handle.
class RINGLOAD_EXPORT invalid_argument : public std::exception {
 public:
  /// `text` must be a literal.
  explicit invalid_argument(const char* text) noexcept : text_(text) {}
  const char* what() const noexcept override { return text_; }

 private:
  const char* text_;
};

/// Returns the status of a failure. A null `failure` is success.
ringload_status status_of(const std::exception_ptr& failure) noexcept;

/// Returns the status of a failure and sets this thread's last error text. Libraries of further
/// components call this function too.
RINGLOAD_EXPORT ringload_status report(const std::exception_ptr& failure) noexcept;

/// Wraps every function of the interface: reports an exception of `body`, otherwise returns the
/// status that `body` returns.
template <class Body>
ringload_status guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return report(std::current_exception());
  }
}

/// Throws invalid_argument with `text` if a handle or an output is null.
template <class T>
T& required(T* pointer, const char* text) {
  if (!pointer) throw invalid_argument(text);
  return *pointer;
}

}  // namespace ringload::c
