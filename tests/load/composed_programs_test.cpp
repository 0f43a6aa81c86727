// SPDX-License-Identifier: Apache-2.0

// Programs that compose loads with the other parts of Asio: stackful coroutines, groups, promises,
// channels, composed operations, default tokens, and several contexts.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/experimental/promise.hpp>
#include <boost/asio/experimental/use_promise.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/multiple_exceptions.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#if RINGLOAD_HAS_BOOST_CONTEXT
#include <boost/asio/spawn.hpp>
#endif
#include <memory>
#include <ringload/ringload.hpp>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

const char* const missing = "/no/such.safetensors";

std::vector<made_tensor> three_tensors() { return {{"a", 1000}, {"b", 300'000}, {"c", 17}}; }

template <class T>
T run(asio::io_context& context, asio::awaitable<T> program) {
  auto done = asio::co_spawn(context, std::move(program), asio::use_future);
  context.run_for(patience);
  return get(std::move(done));
}

}  // namespace

TEST_CASE("programs: a stackful coroutine loads, and receives errors as codes and exceptions") {
#if !RINGLOAD_HAS_BOOST_CONTEXT
  MESSAGE("skipped: asio::spawn needs the library Boost.Context");
#else
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  std::size_t tensors = 0;
  std::string steps;
  const auto program = [&](asio::yield_context yield) {
    const model loaded = with.load_async(file.name(), yield);
    tensors = loaded.size();
    load_operation load = with.start_async(file.name(), yield);
    while (const auto next = load.next_async(yield)) steps += next->name();
    boost::system::error_code code;
    const model none = with.load_async(missing, yield[code]);
    if (none.empty() && code == condition::not_found) steps += '1';
    try {
      (void)with.load_async(missing, yield);
    } catch (const boost::system::system_error& e) {
      if (e.code() == condition::not_found) steps += '2';
    }
    diagnostics info;
    (void)with.load_async(missing, bind_diagnostics(info, yield[code]));
    if (info.place == missing) steps += '3';
  };
  asio::spawn(context, program, [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
  context.run_for(patience);
  CHECK(tensors == 3);
  std::sort(steps.begin(), steps.end());
  CHECK(steps == "123abc");
#endif
}

TEST_CASE("programs: two contexts have a loader each, and pass a model from one to the other") {
  const made_file file(three_tensors());
  asio::io_context first(1);
  asio::io_context second(1);
  loader first_loader(first, host(), small_options());
  loader second_loader(second, host(), small_options());
  const auto keep = asio::make_work_guard(second);
  std::thread thread([&] { second.run(); });
  const std::thread::id second_thread = thread.get_id();
  const auto program = [&]() -> asio::awaitable<std::string> {
    const std::thread::id own_thread = std::this_thread::get_id();
    std::string wrong;
    // The coroutine stays in its own context, also if the loader belongs to the other context.
    auto loaded = co_await second_loader.load_async(file.name());
    if (std::this_thread::get_id() != own_thread) wrong += "another thread; ";
    auto copied = co_await first_loader.copy_async(loaded.at("b"));
    if (bytes_of(copied) != bytes_of(loaded.at("b"))) wrong += "other bytes; ";
    co_return wrong;
  };
  std::promise<bool> called;
  second_loader.load_async(file.name(), [&](boost::system::error_code code, const model&) {
    called.set_value(!code && std::this_thread::get_id() == second_thread);
  });
  CHECK(run(first, program()) == "");
  CHECK(get(called.get_future()));
  second.stop();
  thread.join();
}

TEST_CASE("programs: coroutines on one strand of a thread pool share a variable") {
  const made_file file(three_tensors());
  asio::thread_pool pool(3);
  auto strand = asio::make_strand(pool);
  loader with(pool, host(), small_options());
  int done = 0;  // Not atomic, because only the strand changes it.
  std::atomic<int> elsewhere = 0;
  const auto program = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 3; ++i) {
      auto loaded = co_await with.load_async(file.name());
      if (!strand.running_in_this_thread()) ++elsewhere;
      done += loaded.size() == 3 ? 1 : 0;
    }
  };
  for (int i = 0; i < 8; ++i) asio::co_spawn(strand, program(), asio::detached);
  pool.join();
  CHECK(done == 24);
  CHECK(elsewhere == 0);
}

TEST_CASE("programs: a load that loses a race is cancelled, and a failed load cancels the other") {
  using namespace asio::experimental::awaitable_operators;
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  const auto program = [&]() -> asio::awaitable<std::string> {
    std::string wrong;
    asio::steady_timer expired(context, std::chrono::seconds(-1));
    auto race = co_await (expired.async_wait(asio::use_awaitable) || with.load_async(file.name()));
    if (race.index() != 0) wrong += "the load won; ";
    boost::system::error_code failure;
    try {
      auto both = co_await (with.load_async(missing) && with.load_async(file.name()));
      wrong += "both were loaded; " + std::to_string(std::get<0>(both).size());
    } catch (const asio::multiple_exceptions& e) {
      failure = code_of(e.first_exception());  // The other load was cancelled.
    } catch (const error& e) {
      failure = e.code();  // The other load was complete.
    }
    if (failure != condition::not_found) wrong += "another error; ";
    auto loaded = co_await with.load_async(file.name());
    if (loaded.size() != 3) wrong += "the loader no longer loads; ";
    co_return wrong;
  };
  CHECK(run(context, program()) == "");
  CHECK(with.memory().tensor_bytes == 0);
}

TEST_CASE("programs: a chain of deferred operations opens a checkpoint and then loads it") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  const auto open_and_load = [&](const std::string& path) {
    return with.open_async(
        path, asio::deferred([&](boost::system::error_code code, checkpoint opened) {
          return asio::deferred.when(!code)
              .then(with.load_async(std::move(opened), select().except("b"), asio::deferred))
              .otherwise(asio::deferred.values(code, model()));
        }));
  };
  const auto program = [&]() -> asio::awaitable<std::string> {
    std::string seen;
    auto loaded = co_await open_and_load(file.name())(asio::as_tuple(asio::use_awaitable));
    if (!std::get<0>(loaded)) seen += std::to_string(std::get<1>(loaded).size());
    auto failed = co_await open_and_load(missing)(asio::as_tuple(asio::use_awaitable));
    if (std::get<0>(failed) == condition::not_found) seen += " not found";
    co_return seen;
  };
  CHECK(run(context, program()) == "2 not found");
}

TEST_CASE("programs: a loader with a default token, and a loader for another type of executor") {
  using token = asio::as_tuple_t<asio::use_awaitable_t<>>;
  const made_file file(three_tensors());
  asio::io_context context;
  auto with = token::as_default_on(loader(context, host(), small_options()));
  using concrete = loader::rebind_executor<asio::io_context::executor_type>::other;
  static_assert(std::is_same_v<concrete, basic_loader<asio::io_context::executor_type>>);
  concrete other(context.get_executor(), host(), small_options());
  const auto program = [&]() -> asio::awaitable<std::string> {
    std::string seen;
    auto loaded = co_await with.load_async(file.name());
    if (!std::get<0>(loaded)) seen += std::to_string(std::get<1>(loaded).size());
    auto failed = co_await with.load_async(missing, load_options());
    if (std::get<0>(failed) == condition::not_found) seen += " not found";
    std::vector<char> memory(17);
    std::vector<destination> into = {destination("c", memory.data(), dtype::u8, {17})};
    auto filled = co_await with.fill_async(file.name(), into);
    if (!std::get<0>(filled)) seen += " filled";
    auto model = co_await other.load_async(file.name());
    seen += " " + std::to_string(model.size());
    co_return seen;
  };
  CHECK(run(context, program()) == "3 not found filled 3");
}

TEST_CASE("programs: a started load has the executor and the default token of its loader") {
  using token = asio::as_tuple_t<asio::use_awaitable_t<>>;
  using executor = asio::io_context::executor_type;
  const made_file file(three_tensors());
  asio::io_context context;
  auto with = token::as_default_on(basic_loader<executor>(context, host(), small_options()));
  const auto program = [&]() -> asio::awaitable<std::string> {
    std::string seen;
    auto started = co_await with.start_async(file.name());
    auto load = std::move(std::get<1>(started));
    auto next = co_await load.next_async();
    if (!std::get<0>(next) && std::get<1>(next)) seen += "next ";
    auto unknown = co_await load.tensor_async("x");
    if (std::get<0>(unknown) == condition::not_found) seen += "not found ";
    auto finished = co_await load.finish_async();
    seen += std::to_string(std::get<1>(finished).size());
    auto refused = co_await with.start_async(missing);
    if (std::get<0>(refused) == condition::not_found) seen += " refused";
    auto opened = co_await with.stream_async(file.name(), 4 << 20);
    auto stream = std::move(std::get<1>(opened));
    auto first = co_await stream.next_async();
    if (std::get<1>(first)) seen += " " + std::string(std::get<1>(first)->name());
    // The executor of a handle can be erased. The default token is then that of the library.
    tensor_stream erased = std::move(stream);
    auto second = co_await erased.next_async();
    seen += second->name();
    static_assert(std::is_same_v<load_operation::rebind_executor<executor>::other,
                                 basic_load_operation<executor>>);
    static_assert(!std::is_constructible_v<load_operation, basic_tensor_stream<executor>>);
    co_return seen;
  };
  CHECK(run(context, program()) == "next not found 3 refused ab");
}

TEST_CASE("programs: a parallel group of a range of loads, until the first error") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  const auto load = [&](const std::string& path) { return with.load_async(path, asio::deferred); };
  std::vector<decltype(load(""))> loads;
  for (int i = 0; i < 5; ++i) loads.push_back(load(file.name()));
  std::vector<decltype(load(""))> with_missing;
  with_missing.push_back(load(missing));
  for (int i = 0; i < 3; ++i) with_missing.push_back(load(file.name()));
  // A coroutine waits, so that its context has work. The handlers of a range have no executor of
  // their own with Boost 1.81.
  const auto program = [&]() -> asio::awaitable<std::string> {
    std::string wrong;
    auto all = co_await asio::experimental::make_parallel_group(std::move(loads))
                   .async_wait(asio::experimental::wait_for_one_error(), asio::use_awaitable);
    for (const auto& code : std::get<1>(all)) {
      if (code) wrong += code.message() + "; ";
    }
    for (const model& each : std::get<2>(all)) {
      if (each.size() != 3) wrong += "a model without tensors; ";
    }
    auto some = co_await asio::experimental::make_parallel_group(std::move(with_missing))
                    .async_wait(asio::experimental::wait_for_one_error(), asio::use_awaitable);
    const auto& codes = std::get<1>(some);
    if (codes[0] != condition::not_found) wrong += "the first load did not fail; ";
    for (std::size_t i = 1; i < codes.size(); ++i) {
      if (codes[i] && codes[i] != condition::cancelled) wrong += codes[i].message() + "; ";
      if (std::get<2>(some)[i].empty() != bool(codes[i])) wrong += "a model of a failed load; ";
    }
    co_return wrong;
  };
  CHECK(run(context, program()) == "");
  CHECK(with.memory().tensor_bytes == 0);
}

TEST_CASE("programs: promises start loads at once, and a dropped promise cancels its load") {
  namespace experimental = asio::experimental;
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  const auto program = [&]() -> asio::awaitable<std::string> {
    std::string seen;
    auto first = with.load_async(file.name(), experimental::use_promise);
    auto second = with.load_async(missing, experimental::use_promise);
    {
      auto dropped = with.load_async(file.name(), experimental::use_promise);
    }
    auto failed = co_await std::move(second)(asio::as_tuple(asio::use_awaitable));
    if (std::get<0>(failed) == condition::not_found) seen += "not found ";
    // A promise of Boost 1.81 loses its value if the program waits before the value exists.
    while (!first.completed()) co_await asio::post(asio::use_awaitable);
    auto loaded = co_await std::move(first)(asio::use_awaitable);
    seen += std::to_string(loaded.size());
    co_return seen;
  };
  CHECK(run(context, program()) == "not found 3");
  CHECK(with.memory().tensor_bytes == 0);
}

TEST_CASE("programs: a channel passes models from the coroutine that loads to the one that uses") {
  using channel = asio::experimental::channel<void(boost::system::error_code, model)>;
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  channel models(context, 1);
  const auto produce = [&]() -> asio::awaitable<void> {
    const std::vector<std::string> paths = {file.name(), missing, file.name()};
    for (const std::string& path : paths) {
      auto loaded = co_await with.load_async(path, asio::as_tuple(asio::use_awaitable));
      co_await models.async_send(std::get<0>(loaded), std::move(std::get<1>(loaded)),
                                 asio::use_awaitable);
    }
    models.close();
  };
  const auto consume = [&]() -> asio::awaitable<std::string> {
    std::string seen;
    for (;;) {
      auto next = co_await models.async_receive(asio::as_tuple(asio::use_awaitable));
      const boost::system::error_code code = std::get<0>(next);
      if (code == asio::experimental::error::channel_closed) break;
      seen += code == condition::not_found ? "-" : std::to_string(std::get<1>(next).size());
    }
    co_return seen;
  };
  asio::co_spawn(context, produce(), asio::detached);
  CHECK(run(context, consume()) == "3-3");
}

namespace {

// A composed operation of a user: loads `second` if `first` does not exist.
template <class Token>
auto load_either(loader& model_loader, const std::string& first, const std::string& second,
                 Token&& token) {
  return asio::async_compose<Token, void(boost::system::error_code, model)>(
      [&model_loader, first, second, stage = 0](auto& self, boost::system::error_code code = {},
                                                model loaded = {}) mutable {
        ++stage;
        if (stage == 1) return model_loader.load_async(std::string(first), std::move(self));
        if (stage == 2 && code == condition::not_found) {
          return model_loader.load_async(std::string(second), std::move(self));
        }
        self.complete(code, std::move(loaded));
      },
      token, model_loader);
}

}  // namespace

TEST_CASE("programs: an operation that is composed of loads accepts every token") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  const auto program = [&]() -> asio::awaitable<std::string> {
    std::string seen;
    auto loaded = co_await load_either(with, missing, file.name(), asio::use_awaitable);
    seen += std::to_string(loaded.size());
    auto failed = co_await load_either(with, missing, missing, asio::as_tuple(asio::use_awaitable));
    if (std::get<0>(failed) == condition::not_found) seen += " not found";
    co_return seen;
  };
  CHECK(run(context, program()) == "3 not found");
  std::future<model> future = load_either(with, file.name(), missing, asio::use_future);
  context.restart();
  context.run_for(patience);
  CHECK(get(std::move(future)).size() == 3);
}
