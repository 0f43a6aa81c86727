// SPDX-License-Identifier: Apache-2.0
#pragma once

// Resumes a waiting coroutine in the thread of an event loop. A failed allocation is retried,
// because otherwise the coroutine would wait forever.

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/retry_allocation.hpp"

namespace ringload::inline v0::detail {

// Moves a completion handler into the form that resume_in() needs.
template <class Handler>
std::shared_ptr<std::decay_t<Handler>> keep_handler(Handler&& handler) {
  return retry_allocation(
      [&] { return std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler)); });
}

// Calls the handler in the thread of `loop`. At most once for each handler. Thread-safe.
template <class Handler>
void resume_in(boost::asio::io_context& loop, const std::shared_ptr<Handler>& handler) {
  const auto call = [handler] {
    auto resumed = std::move(*handler);
    std::move(resumed)();
  };
  retry_allocation([&] { boost::asio::post(loop, call); });
}

}  // namespace ringload::inline v0::detail
