// SPDX-License-Identifier: Apache-2.0
#pragma once

// Converts exceptions of the C++ interface to a status and an error text. Each thread has its own
// last error text.

#include <ringload/c.h>

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <cstddef>
#include <exception>
#include <new>
#include <ringload/diagnostics.hpp>
#include <ringload/error.hpp>
#include <ringload/export.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ringload::c {

/// Reports an invalid argument, for example a null handle.
class RINGLOAD_EXPORT invalid_argument : public std::exception {
 public:
  /// `text` must be a string literal.
  explicit invalid_argument(const char* text) noexcept : text_(text) {}
  const char* what() const noexcept override { return text_; }

 private:
  const char* text_;
};

/// Returns the status of an error code. Does not set the last error.
ringload_status status_of(const boost::system::error_code& code) noexcept;

/// Returns the status of a failed operation. Sets the last error of the calling thread.
ringload_status report(const boost::system::error_code& code, const diagnostics& info) noexcept;

/// Returns the error code of the exception `failure`, and stores the text of the exception in
/// `info`.
boost::system::error_code code_of(const std::exception_ptr& failure, diagnostics& info) noexcept;

/// Calls `begin`. If `begin` throws an exception, returns the error code of the exception, and
/// stores its text in `info`.
template <class Begin>
boost::system::error_code catch_as_code(diagnostics& info, const Begin& begin) noexcept {
  try {
    begin();
    return {};
  } catch (...) {
    return code_of(std::current_exception(), info);
  }
}

/// Returns the status of the exception `failure`. Sets the last error of the calling thread. The
/// libraries of other components also call this function.
RINGLOAD_EXPORT ringload_status report(const std::exception_ptr& failure) noexcept;

/// Calls `body`. Returns the status that `body` returns, or the status of an exception that `body`
/// throws. Every function of the C interface that returns a status uses this function.
template <class Body>
ringload_status guarded(Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    return report(std::current_exception());
  }
}

/// Sets `*result` to null, and then calls `guarded(body)`. Therefore the handle is also null if
/// `body` fails before it starts an operation. `body` must check whether `result` is null.
template <class Handle, class Body>
ringload_status guarded(Handle** result, Body&& body) noexcept {
  if (result) *result = nullptr;
  return guarded(std::forward<Body>(body));
}

/// Returns the object that `pointer` points to. Throws invalid_argument with `text` if `pointer` is
/// null.
template <class T>
T& required(T* pointer, const char* text) {
  if (!pointer) throw invalid_argument(text);
  return *pointer;
}

/// Returns an array of names as strings. `text` is the error text for a null name.
inline std::vector<std::string> required_names(const char* const* names, std::size_t count,
                                               const char* text) {
  if (count > 0) required(names, "the names are null");
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < count; ++i) strings.emplace_back(&required(names[i], text));
  return strings;
}

}  // namespace ringload::c
