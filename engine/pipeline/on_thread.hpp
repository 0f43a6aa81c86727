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

// Somebody in a line, and what he told of himself.
struct waiting_one {
  template <class Handler>
  waiting_one(Handler&& handler, std::uint64_t w)
      : go_on(std::forward<Handler>(handler)), weight(w) {}
  boost::asio::any_completion_handler<void()> go_on;
  std::uint64_t weight;
};

struct start_waiting {
  template <class Handler>
  void operator()(Handler&& handler, std::deque<waiting_one>* line, std::uint64_t weight) const {
    // In its place: a handler that was moved somewhere else before there is room would be lost.
    surely([&] { line->emplace_back(std::forward<Handler>(handler), weight); });
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
    return to_fault(e);
  } catch (const boost::system::system_error& e) {
    return fault(e.code(), {});
  } catch (const std::system_error& e) {
    return fault(system_code(e.code().value()), {});
  } catch (const std::exception& e) {
    return fault(system_code(ENOTRECOVERABLE), {}, e.what());
  } catch (...) {
    return fault(system_code(ENOTRECOVERABLE), {}, "an exception that is no std::exception");
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

  // `weight` is for who lets it go on: the bytes that it wants to read, say.
  boost::asio::awaitable<void> wait(std::uint64_t weight = 0) {
    return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void()>(
        detail::start_waiting(), boost::asio::use_awaitable, &line_, weight);
  }

  bool empty() const noexcept { return line_.empty(); }
  // Of a line that is not empty.
  std::uint64_t first_weight() const noexcept { return line_.front().weight; }

  void wake_one() {
    if (line_.empty()) return;
    using kept = boost::asio::any_completion_handler<void()>;
    const auto handler =
        surely([&] { return std::make_shared<kept>(std::move(line_.front().go_on)); });
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
  std::deque<detail::waiting_one> line_;
};

}  // namespace ringload::inline v0
