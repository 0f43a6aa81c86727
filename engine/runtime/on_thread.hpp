// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a blocking function in a thread pool and resumes the coroutine in the engine thread.

#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/retry_allocation.hpp"
#include "base/work_interval.hpp"
#include "io/threads.hpp"
#include "runtime/resume_in.hpp"

namespace ringload::inline v0 {

namespace detail {

struct start_on_thread {
  template <class Handler, class Work>
  void operator()(Handler&& handler, threads* on, boost::asio::io_context* loop, Work* work,
                  work_interval* times) const {
    // The coroutine that owns `work` waits, so both stay where they are.
    const auto resume = keep_handler(std::forward<Handler>(handler));
    const auto run = [resume, loop, work, times] {
      if (times) times->begins();
      (*work)();
      if (times) times->ends();
      resume_in(*loop, resume);
    };
    retry_allocation([&] { boost::asio::post(on->get_executor(), run); });
  }
};

}  // namespace detail

// Runs `work()` in one of the threads and resumes in the loop's thread. `work` outlives the wait,
// stores its own result, and does not throw. `times` is told when it ran, if it is not null.
template <class Work>
boost::asio::awaitable<void> on_thread(threads& on, boost::asio::io_context& loop, Work& work,
                                       work_interval* times = nullptr) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
      detail::start_on_thread(), boost::asio::use_awaitable, &on, &loop, &work, times);
}

}  // namespace ringload::inline v0
