// SPDX-License-Identifier: Apache-2.0
#pragma once

// Suspends a coroutine until all previously posted handlers of the loop have run. Engine thread
// only.

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "runtime/resume_in.hpp"

namespace ringload::inline v0 {

namespace detail {

struct start_yield_to_loop {
  template <class Handler>
  void operator()(Handler&& handler, boost::asio::io_context* loop) const {
    resume_in(*loop, keep_handler(std::forward<Handler>(handler)));
  }
};

}  // namespace detail

inline boost::asio::awaitable<void> yield_to_loop(boost::asio::io_context& loop) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
      detail::start_yield_to_loop(), boost::asio::use_awaitable, &loop);
}

}  // namespace ringload::inline v0
