// SPDX-License-Identifier: Apache-2.0
#pragma once

// The error value of the engine: an error code, the place of the error, and the cause. Public
// functions throw a fault as `ringload::error`.

#include <boost/system/result.hpp>
#include <exception>
#include <memory>
#include <ringload/detail/operation.hpp>
#include <ringload/diagnostics.hpp>
#include <ringload/error.hpp>
#include <ringload/export.hpp>
#include <string>
#include <utility>

namespace ringload::inline v0 {

// Copies of a fault share its texts, so copying a fault allocates no memory.
struct RINGLOAD_EXPORT fault {
  fault() = default;
  fault(boost::system::error_code c, std::string place_text, std::string cause_text = {});

  boost::system::error_code code;

  // For example "model-00002.safetensors: tensor 'wte.weight'". Usually, the code that opened the
  // file adds the place.
  const std::string& where() const noexcept;
  // For example "the tensor ends at byte 4,096, but the file has 4,000 bytes". Empty if the message
  // of the code is enough.
  const std::string& cause() const noexcept;

  // Returns the fault with `outer` before the place, unless the place begins with `outer`.
  fault in(const std::string& outer) const;

  // Converts the fault to the error of an operation.
  operator detail::operation_failure() const noexcept { return {code, texts_}; }

 private:
  std::shared_ptr<const diagnostics> texts_;  // Null if both texts are empty.
};

template <class T>
using result = boost::system::result<T, fault>;

// Converts an errno value to an error code.
RINGLOAD_EXPORT boost::system::error_code system_code(int error_number) noexcept;

// Returns the fault for a thread that could not start. If the error is EAGAIN, the cause names the
// limits that may have been reached.
RINGLOAD_EXPORT fault thread_refused(int error_number);

// Returns true if `bytes` more bytes would exceed the limit of address space (ulimit -v).
bool exceeds_address_space(std::uint64_t bytes);

// Returns the place and the cause: "model.gguf: the key 'a' is missing". If the cause is empty, the
// message of the code replaces the cause. For EMFILE and ENFILE, the message of the code also names
// the limit.
RINGLOAD_EXPORT std::string message_of(const fault& problem);

RINGLOAD_EXPORT error to_error(const fault& problem);

// Throws the fault. If the fault has no place, adds `place` first.
template <class T>
T value_or_throw(result<T> outcome, const std::string& place) {
  if (!outcome)
    throw to_error(outcome.error().where().empty() ? outcome.error().in(place) : outcome.error());
  return std::move(*outcome);
}

fault to_fault(const error& problem);

// boost::system::result calls this function if value() is called on a failed result.
[[noreturn]] void throw_exception_from_error(const fault& problem, const boost::source_location&);

// Formats 4096 as "4,096" for messages. Exported for the other libraries of ringload.
RINGLOAD_EXPORT std::string grouped(std::uint64_t number);

}  // namespace ringload::inline v0
