// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two things that a coroutine of the engine waits for besides reads and copies: work that would
// stall the engine thread, and its turn.

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

#include "core/fault.hpp"
#include "core/surely.hpp"
#include "readers/threads.hpp"

namespace ringload::inline v0 {

namespace detail {

struct start_on_thread {
  template <class Handler, class Work>
  void operator()(Handler&& handler, threads* on, boost::asio::io_context* loop, Work* work) const {
    // The coroutine that owns `work` waits, so both stay where they are.
    const auto resume = surely(
        [&] { return std::make_shared<std::decay_t<Handler>>(std::forward<Handler>(handler)); });
    const auto run = [resume, loop, work] {
      (*work)();
      const auto come_back = [resume] {
        auto resumed = std::move(*resume);
        std::move(resumed)();
      };
      surely([&] { boost::asio::post(*loop, come_back); });
    };
    surely([&] { boost::asio::post(on->get_executor(), run); });
  }
};

struct start_waiting {
  template <class Handler>
  void operator()(Handler&& handler,
                  std::deque<boost::asio::any_completion_handler<void()>>* line) const {
    surely([&] { line->emplace_back(std::forward<Handler>(handler)); });
  }
};

}  // namespace detail

// What `work` gives, and what it throws as a fault: memory that is not there, most of all.
template <class Work>
auto attempt(Work&& work) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fault(errc::memory_exceeded, {});
  } catch (const error& e) {
    return fault(e.code(), e.place(), e.what());
  } catch (const boost::system::system_error& e) {
    return fault(e.code(), {});
  } catch (const std::system_error& e) {
    return fault(system_code(e.code().value()), {});
  } catch (const std::exception& e) {
    return fault(system_code(ENOTRECOVERABLE), {}, e.what());
  }
}

// Runs `work()` in one of the threads, and comes back to the loop's thread. `work` is named by the
// caller, lives until this is done, keeps its own result, and does not throw.
template <class Work>
boost::asio::awaitable<void> on_thread(threads& on, boost::asio::io_context& loop, Work& work) {
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
      detail::start_on_thread(), boost::asio::use_awaitable, &on, &loop, &work);
}

// Coroutines of one thread that wait in line until somebody of that thread lets one go on.
class waiting_line {
 public:
  explicit waiting_line(boost::asio::io_context& loop) noexcept : loop_(loop) {}

  boost::asio::awaitable<void> wait() {
    return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
        detail::start_waiting(), boost::asio::use_awaitable, &line_);
  }

  bool empty() const noexcept { return line_.empty(); }

  void wake_one() {
    if (line_.empty()) return;
    using kept = boost::asio::any_completion_handler<void()>;
    const auto handler = surely([&] { return std::make_shared<kept>(std::move(line_.front())); });
    line_.pop_front();
    const auto go_on = [handler] {
      auto resumed = std::move(*handler);
      std::move(resumed)();
    };
    surely([&] { boost::asio::post(loop_, go_on); });
  }

  void wake_all() {
    while (!line_.empty()) wake_one();
  }

 private:
  boost::asio::io_context& loop_;
  std::deque<boost::asio::any_completion_handler<void()>> line_;
};

}  // namespace ringload::inline v0
