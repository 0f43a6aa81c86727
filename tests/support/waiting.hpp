// SPDX-License-Identifier: Apache-2.0
#pragma once

// Waits with a timeout, which fails the test.

#include <boost/asio/error.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <ringload/as_exception.hpp>
#include <ringload/error.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "support/has_feature.hpp"

#if defined(__SANITIZE_THREAD__) || RINGLOAD_HAS_FEATURE(thread_sanitizer)
// The reference count of an exception_ptr is in libstdc++.so, which ThreadSanitizer does not
// instrument. Therefore it reports a race between the last owner, which destroys the exception, and
// all earlier readers.
extern "C" __attribute__((used)) inline const char* __tsan_default_suppressions() {
  return "race:std::__exception_ptr::exception_ptr::_M_release\n";
}
#endif

namespace ringload::testing {

inline constexpr std::chrono::seconds patience{60};

// A future that throws ringload::error, with the place.
inline constexpr auto use_future = as_exception(boost::asio::use_future);

template <class T>
T get(std::future<T> from) {
  if (from.wait_for(patience) != std::future_status::ready) {
    throw std::runtime_error("it does not complete");
  }
  return from.get();
}

// Waits until the state is true. Returns false if it does not become true.
template <class State>
bool comes_true(const State& state) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!state()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

template <class T>
bool ready(const std::future<T>& one) {
  return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// The error of the operation. Empty if it succeeds.
template <class T>
std::optional<error> failure_of(std::future<T> from) {
  try {
    get(std::move(from));
  } catch (const error& e) {
    return e;
  }
  return std::nullopt;
}

template <class T>
boost::system::error_code code_of(std::future<T> from) {
  const auto failed = failure_of(std::move(from));
  return failed ? failed->code() : boost::system::error_code();
}

inline boost::system::error_code code_of(const boost::system::error_code& code) { return code; }
inline boost::system::error_code code_of(const std::exception_ptr& failure) {
  if (!failure) return {};
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& e) {
    return e.code();
  }
}

inline bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ringload::testing
