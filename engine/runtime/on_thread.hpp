// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  void operator()(Handler&& handler, threads* pool, boost::asio::io_context* loop, Work* work,
                  work_interval* times) const {
    // The waiting coroutine owns `work` and `times`, so both are valid until the coroutine is
    // resumed.
    const auto resume = keep_handler(std::forward<Handler>(handler));
    const auto run = [resume, loop, work, times] {
      if (times) times->record_begin();
      (*work)();
      if (times) times->record_end();
      resume_in(*loop, resume);
    };
    retry_allocation([&] { boost::asio::post(pool->get_executor(), run); });
  }
};

}  // namespace detail

// Runs a blocking function, `work()`, in a thread of `pool`, then resumes the coroutine in the
// thread of `loop`. The caller must keep `work` valid until the coroutine is resumed. `work` must
// store its own result and must not throw. If `times` is not null, `times` receives the start and
// the end of the call.
template <class Work>
boost::asio::awaitable<void> on_thread(threads& pool, boost::asio::io_context& loop, Work& work,
                                       work_interval* times = nullptr) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
      detail::start_on_thread(), boost::asio::use_awaitable, &pool, &loop, &work, times);
}

}  // namespace ringload::inline v0
