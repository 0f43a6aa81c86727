// SPDX-License-Identifier: Apache-2.0

// Completion handlers that the library destroys without a call, and initiations that throw. A C
// program cannot cause either on purpose.

#include "c/operation.hpp"

#include <doctest/doctest.h>
#include <pthread.h>
#include <signal.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;

namespace {

// An operation whose result is a number. Counts the calls of its callback.
class counted_operation {
 public:
  // Returns when `initiate` has returned in the completion thread.
  template <class Initiate>
  explicit counted_operation(Initiate initiate) {
    REQUIRE(c::begin_operation<std::uint64_t>(thread_, &operation_, std::move(initiate)) ==
            RINGLOAD_OK);
    const auto count = [](void* calls, ringload_status) { ++*static_cast<int*>(calls); };
    REQUIRE(ringload_operation_on_end(operation_, count, &calls_) == RINGLOAD_OK);
    settle();
  }
  counted_operation(const counted_operation&) = delete;
  counted_operation& operator=(const counted_operation&) = delete;
  ~counted_operation() { ringload_operation_release(operation_); }

  // Returns when the completion thread has carried out all work that was posted before.
  void settle() {
    std::promise<void> reached;
    boost::asio::post(thread_->context(), [&] { reached.set_value(); });
    reached.get_future().get();
  }
  ringload_status status() const { return ringload_operation_status(operation_); }
  int calls() {
    settle();
    return calls_;
  }
  std::uint64_t value() const {
    std::uint64_t out = 0;
    const auto take = [&](std::uint64_t result) {
      out = result;
      return RINGLOAD_OK;
    };
    CHECK(operation_->state->with_result<std::uint64_t>(take) == RINGLOAD_OK);
    return out;
  }

 private:
  const std::shared_ptr<c::completion_thread> thread_ = std::make_shared<c::completion_thread>();
  ringload_operation* operation_ = nullptr;
  int calls_ = 0;
};

}  // namespace

TEST_CASE("C threads: a handler that drops the last reference waits for none of the threads") {
  const auto destroyed = std::make_shared<std::promise<void>>();
  const auto destroy = [destroyed](c::context_threads* object) {
    delete object;
    destroyed->set_value();
  };
  std::promise<void> dropped;
  std::shared_ptr<c::context_threads> threads(new c::context_threads(4), destroy);
  boost::asio::post(threads->context(), [threads, is_dropped = dropped.get_future()]() mutable {
    is_dropped.wait();
    threads.reset();
  });
  threads.reset();
  dropped.set_value();
  CHECK(destroyed->get_future().wait_for(patience) == std::future_status::ready);
}

TEST_CASE("C threads: all signals are blocked, and the program's own thread stays unchanged") {
  const auto is_blocked = [](int signal) {
    ::sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    return ::sigismember(&blocked, signal) == 1;
  };
  const c::context_threads threads(2);
  std::promise<bool> found;
  boost::asio::post(threads.context(), [&] {
    found.set_value(is_blocked(SIGTERM) && is_blocked(SIGINT) && is_blocked(SIGCHLD));
  });
  CHECK(found.get_future().get());
  CHECK_FALSE(is_blocked(SIGTERM));
}

TEST_CASE("C status: a thread that cannot be started is a system error with its errno") {
  const std::system_error failure(EAGAIN, std::generic_category());
  CHECK(c::report(std::make_exception_ptr(failure)) == RINGLOAD_SYSTEM_ERROR);
  CHECK(ringload_last_errno() == EAGAIN);
  CHECK(std::string(ringload_last_error()) == failure.what());
}

TEST_CASE("C status: the error text is one line of UTF-8, whatever text an exception has") {
  const auto text_of = [](const std::string& text) {
    c::report(std::make_exception_ptr(std::runtime_error(text)));
    return std::string(ringload_last_error());
  };
  CHECK(text_of("a\tb\x7f") == "a\\x09b\\x7f");
  CHECK(text_of("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80") ==
        "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(text_of("\xe2\x80\xa8") == "\\xe2\\x80\\xa8");           // A line separator.
  CHECK(text_of("\xe2\x82") == "\\xe2\\x82");                    // A truncated character.
  CHECK(text_of("\xc0\x80") == "\\xc0\\x80");                    // An overlong encoding.
  CHECK(text_of("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // A surrogate.
  CHECK(text_of("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // Above U+10FFFF.
  const std::string longest = text_of(std::string(4094, 'x') + "\xc3\xa4y");
  CHECK(longest == std::string(4094, 'x'));  // Text after the truncation is dropped, too.
}

TEST_CASE("C operation: a handler that is destroyed without a call ends the operation") {
  counted_operation dropped([](auto handler) { static_cast<void>(handler); });
  CHECK(dropped.status() == RINGLOAD_NO_MEMORY);
  CHECK(std::string(ringload_last_error()) == "out of memory");
  CHECK(dropped.calls() == 1);
}

TEST_CASE("C operation: a handler may be destroyed later, in another thread") {
  std::shared_ptr<void> kept;
  counted_operation pending([&](auto handler) {
    kept = std::make_shared<std::decay_t<decltype(handler)>>(std::move(handler));
  });
  CHECK(pending.status() == RINGLOAD_PENDING);
  CHECK(pending.calls() == 0);
  std::thread([&] { kept.reset(); }).join();
  CHECK(pending.status() == RINGLOAD_NO_MEMORY);
  CHECK(pending.calls() == 1);
}

TEST_CASE("C operation: an exception of the initiation ends the operation with its own reason") {
  counted_operation refused([](auto handler) {
    const auto owner = std::move(handler);
    throw error(errc::source_not_found, "a place", "a cause");
  });
  CHECK(refused.status() == RINGLOAD_NOT_FOUND);
  CHECK(std::string(ringload_last_error()).find("a place: a cause") != std::string::npos);
  CHECK(refused.calls() == 1);
}

TEST_CASE("C operation: a result is final, also if the initiation throws afterwards") {
  counted_operation done([](auto handler) {
    std::move(handler)(boost::system::error_code(), std::uint64_t{7});
    throw error(errc::source_not_found, "a place", "a cause");
  });
  CHECK(done.status() == RINGLOAD_OK);
  CHECK(done.value() == 7);
  CHECK(done.calls() == 1);
}
