// SPDX-License-Identifier: Apache-2.0
#pragma once

// The error value that layers return: a code, the place, the cause. The public API throws it as
// `ringload::error`.

#include <boost/system/result.hpp>
#include <exception>
#include <ringload/error.hpp>
#include <ringload/export.hpp>
#include <string>
#include <utility>

namespace ringload::inline v0 {

struct fault {
  fault() = default;
  fault(boost::system::error_code c, std::string w, std::string cause_text = {})
      : code(c), where(std::move(w)), cause(std::move(cause_text)) {}

  boost::system::error_code code;
  std::string
      where;  // "model-00002.safetensors: tensor 'wte.weight'", added by the layer that knows it.
  std::string
      cause;  // "its bytes end at 4,096 but the file at 4,000"; empty: the code says it all.

  /// The same fault with `outer` put before the place, unless the place begins with it.
  RINGLOAD_EXPORT fault in(const std::string& outer) const;
};

template <class T>
using result = boost::system::result<T, fault>;

/// errno, or the negative result of a kernel call turned positive.
RINGLOAD_EXPORT boost::system::error_code system_code(int error_number) noexcept;

/// A thread could not be started; the cause names the limits that may be reached.
fault thread_refused(int error_number);

/// "No such file or directory": the code's message, without its category. For EMFILE and ENFILE it
/// also names the limit that is reached.
RINGLOAD_EXPORT std::string message_of(const fault& what);

RINGLOAD_EXPORT error to_error(const fault& what);

// A failure that says no place is thrown as one of `place`.
template <class T>
T value_or_throw(result<T> of, const std::string& place) {
  if (!of) throw to_error(of.error().where.empty() ? of.error().in(place) : of.error());
  return std::move(*of);
}

fault to_fault(const error& what);
std::exception_ptr to_exception(const fault& what);

// Called by boost::system::result when value() is called on a failed result.
[[noreturn]] void throw_exception_from_error(const fault& what, const boost::source_location&);

/// 4096 -> "4,096", for messages. Exported, as others here, for the libraries beside this one.
RINGLOAD_EXPORT std::string grouped(std::uint64_t number);

}  // namespace ringload::inline v0
