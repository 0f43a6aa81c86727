// SPDX-License-Identifier: Apache-2.0
#pragma once

// Failures of the C++ interface as those of the C interface: a status, and a text for each thread.

#include <ringload/c.h>

#include <cstddef>
#include <exception>
#include <ringload/export.hpp>
#include <string>
#include <utility>

namespace ringload::c {

/// A call that is wrong in itself, as by a null handle.
class RINGLOAD_EXPORT invalid_argument : public std::exception {
 public:
  /// `what` must be a literal.
  explicit invalid_argument(const char* what) noexcept : what_(what) {}
  const char* what() const noexcept override { return what_; }

 private:
  const char* what_;
};

/// The status of a failure; `why` of null is success.
ringload_status status_of(const std::exception_ptr& why) noexcept;

/// status_of, and the text of it becomes this thread's last error. Libraries of further components
/// call it, too.
RINGLOAD_EXPORT ringload_status report(const std::exception_ptr& why) noexcept;

/// Ends every function of the interface: what it throws is reported, and it returns RINGLOAD_OK or
/// what `body` returns.
template <class Body>
ringload_status guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return report(std::current_exception());
  }
}

/// A handle or an output that must not be null.
template <class T>
T& required(T* pointer, const char* what) {
  if (!pointer) throw invalid_argument(what);
  return *pointer;
}

}  // namespace ringload::c
