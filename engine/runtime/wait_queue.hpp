// SPDX-License-Identifier: Apache-2.0
#pragma once

// A FIFO queue of waiting coroutines. All functions must be called in one thread.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <deque>
#include <utility>

#include "base/retry_allocation.hpp"
#include "runtime/resume_in.hpp"

namespace ringload::inline v0 {

namespace detail {

struct queued_waiter {
  template <class Handler>
  queued_waiter(Handler&& handler, std::uint64_t w)
      : resume(std::forward<Handler>(handler)), weight(w) {}
  boost::asio::any_completion_handler<void()> resume;
  std::uint64_t weight;
};

struct enqueue_waiter {
  template <class Handler>
  void operator()(Handler&& handler, std::deque<queued_waiter>* queue, std::uint64_t weight) const {
    // The handler is moved directly into the queue. A temporary object with the handler would be
    // lost if emplace_back threw bad_alloc.
    retry_allocation([&] { queue->emplace_back(std::forward<Handler>(handler), weight); });
  }
};

}  // namespace detail

class wait_queue {
 public:
  explicit wait_queue(boost::asio::io_context& loop) : loop_(loop) {}

  // Suspends the coroutine until wake_one() or wake_all() resumes the coroutine. While the
  // coroutine is the first in the queue, front_weight() returns `weight`. For example, `weight` is
  // the number of bytes that the coroutine will read.
  boost::asio::awaitable<void> wait(std::uint64_t weight = 0) {
    return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
        detail::enqueue_waiter(), boost::asio::use_awaitable, &queue_, weight);
  }

  bool empty() const noexcept { return queue_.empty(); }
  // Returns the weight of the first waiting coroutine. The queue must not be empty.
  std::uint64_t front_weight() const noexcept { return queue_.front().weight; }

  void wake_one() {
    if (queue_.empty()) return;
    const auto handler = detail::keep_handler(std::move(queue_.front().resume));
    queue_.pop_front();
    detail::resume_in(loop_, handler);
  }

  void wake_all() {
    while (!queue_.empty()) wake_one();
  }

 private:
  boost::asio::io_context& loop_;
  std::deque<detail::queued_waiter> queue_;
};

}  // namespace ringload::inline v0
