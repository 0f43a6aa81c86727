// SPDX-License-Identifier: Apache-2.0
#pragma once

// Resumes a coroutine of the engine thread after what has been posted to its loop before.

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/retry_allocation.hpp"

namespace ringload::inline v0 {

namespace detail {

struct start_loop_turn {
  template <class Handler>
  void operator()(Handler&& handler, boost::asio::io_context* loop) const {
    const auto resume = retry_allocation(
        [&] { return std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler)); });
    const auto run = [resume] {
      auto resumed = std::move(*resume);
      std::move(resumed)();
    };
    retry_allocation([&] { boost::asio::post(*loop, run); });
  }
};

}  // namespace detail

inline boost::asio::awaitable<void> loop_turn(boost::asio::io_context& loop) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
      detail::start_loop_turn(), boost::asio::use_awaitable, &loop);
}

}  // namespace ringload::inline v0
