// SPDX-License-Identifier: Apache-2.0

// Cancellation of a coroutine: through its own slot, and by `||`.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_future.hpp>
#include <ringload/ringload.hpp>
#include <thread>

#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using namespace ringload;
using namespace ringload::testing;

namespace {

read_fate held(const io_request&, std::uint64_t) {
  return {.until_released = read_fate::hold::start};
}

asio::awaitable<model> load(scripted_loader& with, std::string path) {
  model loaded = co_await with.load_async(path, {}, asio::use_awaitable);
  co_return loaded;
}

asio::awaitable<int> alarm(read_script& script, std::size_t reads) {
  const auto executor = co_await asio::this_coro::executor;
  if (!script.wait_until_held(reads)) co_return 0;
  asio::steady_timer timer(executor, std::chrono::seconds(0));
  co_await timer.async_wait(asio::use_awaitable);
  co_return 1;
}

asio::awaitable<std::size_t> load_or_alarm(scripted_loader& with, read_script& script,
                                           std::string path) {
  std::size_t held_then = 0;
  auto first = co_await (load(with, path) || alarm(script, 2));
  held_then = script.held();
  CHECK(first.index() == 1);
  CHECK(std::get<1>(first) == 1);
  co_return held_then;
}

asio::awaitable<bool> load_with_timeout(loader& with, std::string path) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, std::chrono::hours(1));
  auto first = co_await (with.load_async(path) || timer.async_wait(asio::use_awaitable));
  co_return first.index() == 0 && std::get<0>(first).size() == 8;
}

}  // namespace

TEST_CASE("a coroutine that is cancelled gets operation_aborted from the load that it awaits") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2), counted_host());
  asio::io_context context;
  asio::cancellation_signal signal;
  std::exception_ptr failure;
  int calls = 0;
  asio::co_spawn(context, load(with, file.name()),
                 asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr why, model) {
                   ++calls;
                   failure = why;
                 }));
  context.poll();
  REQUIRE(script.wait_until_held(2));
  signal.emit(asio::cancellation_type::terminal);
  with.settle();
  context.poll();
  CHECK(calls == 0);
  script.release_all();
  context.run_for(patience);
  CHECK(calls == 1);
  CHECK(code_of(failure) == asio::error::operation_aborted);
  CHECK(arenas_taken == 0);
}

TEST_CASE("a load || a timer: the timer wins, and the load has freed everything by then") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2), counted_host());
  asio::io_context context;
  auto outcome = asio::co_spawn(context, load_or_alarm(with, script, file.name()), use_future);
  bool early = true;
  std::thread letting_go([&] {
    if (!script.wait_until_held(2)) return;
    // Enough iterations of the context for the timer to expire, and for `||` to cancel the load.
    for (int turn = 0; turn < 50; ++turn) get(asio::post(context, use_future));
    with.settle();
    early = ready(outcome);
    script.release_all();
  });
  context.run_for(patience);
  letting_go.join();
  CHECK_FALSE(early);
  CHECK(get(std::move(outcome)) == 0);
  CHECK(script.started() == 2);
  CHECK(arenas_taken == 0);
}

TEST_CASE("a load || a timer: the load wins") {
  const made_file file(equal_tensors(8, small_slot));
  loader with(host(), small_options(2));
  asio::io_context context;
  auto outcome = asio::co_spawn(context, load_with_timeout(with, file.name()), use_future);
  context.run_for(patience);
  CHECK(get(std::move(outcome)));
}
