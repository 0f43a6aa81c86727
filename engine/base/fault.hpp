// SPDX-License-Identifier: Apache-2.0
#pragma once

// The error value of the engine: a code, the place, the cause. The public API throws it as
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
  // "model-00002.safetensors: tensor 'wte.weight'", added by the layer that knows it.
  std::string where;
  // "its bytes end at 4,096 but the file at 4,000"; empty: the code says everything.
  std::string cause;

  // Returns the same fault with `outer` in front of the place, unless the place begins with it.
  RINGLOAD_EXPORT fault in(const std::string& outer) const;
};

template <class T>
using result = boost::system::result<T, fault>;

// Takes errno or a negated kernel result.
RINGLOAD_EXPORT boost::system::error_code system_code(int error_number) noexcept;

// A thread could not be started. The cause names the limits that may be reached.
fault thread_refused(int error_number);

// Returns the message of the code without its category: "No such file or directory". For EMFILE and
// ENFILE the message also names the limit.
RINGLOAD_EXPORT std::string message_of(const fault& problem);

RINGLOAD_EXPORT error to_error(const fault& problem);

// Throws the fault; adds `place` if the fault has no place.
template <class T>
T value_or_throw(result<T> outcome, const std::string& place) {
  if (!outcome)
    throw to_error(outcome.error().where.empty() ? outcome.error().in(place) : outcome.error());
  return std::move(*outcome);
}

fault to_fault(const error& problem);
std::exception_ptr to_exception(const fault& problem);

// Called by boost::system::result if value() is called on a failed result.
[[noreturn]] void throw_exception_from_error(const fault& problem, const boost::source_location&);

// Formats 4096 as "4,096" for messages. Exported, like other functions here, for the other
// libraries.
RINGLOAD_EXPORT std::string grouped(std::uint64_t number);

}  // namespace ringload::inline v0
