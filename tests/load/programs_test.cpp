// SPDX-License-Identifier: Apache-2.0

// Short programs in the style of Asio users.

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 108600
#include <boost/asio/cancel_after.hpp>
#endif
#include <future>
#include <memory>
#include <ringload/ringload.hpp>
#include <string>
#include <thread>
#include <tuple>
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

}  // namespace

TEST_CASE("programs: redirect_error and as_tuple, with options, in a coroutine") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  const auto program = [&]() -> asio::awaitable<std::size_t> {
    boost::system::error_code code;
    auto none = co_await with.load_async(missing, asio::redirect_error(asio::use_awaitable, code));
    CHECK(none.empty());
    CHECK(code == condition::not_found);
    load_options options;
    options.select.matching("[ab]");
    options.route = read_route::buffered;
    auto both = co_await with.load_async(file.name(), options, asio::as_tuple(asio::use_awaitable));
    CHECK_FALSE(std::get<0>(both));
    co_return std::get<1>(both).size();
  };
  auto size = asio::co_spawn(context, program(), asio::use_future);
  context.run_for(patience);
  CHECK(get(std::move(size)) == 2);
}

TEST_CASE("programs: a strand of a thread pool runs the handlers one at a time") {
  const made_file file(three_tensors());
  asio::thread_pool pool(3);
  auto strand = asio::make_strand(pool);
  basic_loader<decltype(strand)> with(strand, host(), small_options());
  int done = 0;  // Not atomic, because only the strand changes it.
  bool on_strand = true;
  for (int i = 0; i < 20; ++i) {
    with.load_async(file.name(), [&](const boost::system::error_code& code, const model& loaded) {
      on_strand = on_strand && strand.running_in_this_thread();
      if (!code && loaded.size() == 3) ++done;
    });
  }
  pool.join();
  CHECK(done == 20);
  CHECK(on_strand);
}

TEST_CASE("programs: one loader serves several io_contexts, each in its thread") {
  const made_file file(three_tensors());
  loader with(host(), small_options());
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      asio::io_context context(1);
      const std::thread::id self = std::this_thread::get_id();
      with.load_async(file.name(), asio::bind_executor(
                                       context, [&](const boost::system::error_code& code, model) {
                                         right += !code && std::this_thread::get_id() == self;
                                       }));
      context.run();
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(right == 4);
}

TEST_CASE("programs: deferred operations run together in a parallel group") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  int calls = 0;
  asio::experimental::make_parallel_group(with.load_async(file.name(), asio::deferred),
                                          with.load_async(missing, asio::deferred))
      .async_wait(asio::experimental::wait_for_all(),
                  [&](std::array<std::size_t, 2>, boost::system::error_code first, const model& all,
                      boost::system::error_code second, const model& none) {
                    ++calls;
                    CHECK_FALSE(first);
                    CHECK(all.size() == 3);
                    CHECK(second == errc::source_not_found);
                    CHECK(none.empty());
                  });
  context.run_for(patience);
  CHECK(calls == 1);
}

TEST_CASE("programs: awaitable operators load two models and race a timer") {
  using namespace asio::experimental::awaitable_operators;
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  const auto program = [&]() -> asio::awaitable<void> {
    asio::steady_timer timer(context, patience);
    auto both = co_await (with.load_async(file.name()) && with.load_async(file.name()));
    CHECK(std::get<0>(both).size() + std::get<1>(both).size() == 6);
    auto race = co_await (with.load_async(file.name()) || timer.async_wait(asio::use_awaitable));
    CHECK(race.index() == 0);
  };
  auto done = asio::co_spawn(context, program(), asio::use_future);
  context.run_for(patience);
  get(std::move(done));
}

TEST_CASE("programs: a type-erased handler completes") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  std::size_t tensors = 0;
  asio::any_completion_handler<void(boost::system::error_code, model)> handler(
      [&](boost::system::error_code, const model& loaded) { tensors = loaded.size(); });
  with.load_async(file.name(), std::move(handler));
  context.run_for(patience);
  CHECK(tensors == 3);
}

TEST_CASE("programs: a stream returns the tensors of a selection, and a load is a stream too") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  const auto names_of = [](tensor_stream& stream) -> asio::awaitable<std::string> {
    std::string names;
    for (;;) {
      auto next = co_await stream.next_async();
      if (!next) break;
      names += next->name();
    }
    co_return names;
  };
  const auto program = [&]() -> asio::awaitable<void> {
    auto windowed = co_await with.stream_async(file.name(), 4 << 20, select().except("b"));
    auto names = co_await names_of(windowed);
    CHECK(names == "ac");
    auto load = co_await with.start_async(file.name());
    names = co_await names_of(load);
    CHECK(names.size() == 3);
    auto loaded = co_await load.finish_async();
    CHECK(loaded.size() == 3);
  };
  auto done = asio::co_spawn(context, program(), asio::use_future);
  context.run_for(patience);
  get(std::move(done));
}

// A class of callbacks. Each callback keeps the object alive.
struct two_loads : std::enable_shared_from_this<two_loads> {
  explicit two_loads(loader& l) : model_loader(l) {}

  void run(const std::string& name) {
    model_loader.load_async(
        name, [self = shared_from_this(), name](boost::system::error_code code, model loaded) {
          if (code) return;
          self->first = std::move(loaded);
          self->model_loader.load_async(
              missing, [self](boost::system::error_code failed, model) { self->second = failed; });
        });
  }

  loader& model_loader;
  model first;
  boost::system::error_code second;
};

TEST_CASE("programs: callbacks of an object that keep the object alive") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  auto loads = std::make_shared<two_loads>(with);
  loads->run(file.name());
  CHECK(loads->first.empty());  // No callback runs before run_for().
  context.run_for(patience);
  CHECK(loads->first.size() == 3);
  CHECK(loads->second == condition::not_found);
  CHECK(loads.use_count() == 1);
}

TEST_CASE("programs: a thread without a context waits for futures") {
  const made_file file(three_tensors());
  loader with(host(), small_options());
  std::future<model> loaded = with.load_async(file.name(), asio::use_future);
  std::future<model> failed = with.load_async(missing, as_exception(asio::use_future));
  CHECK(get(std::move(loaded)).size() == 3);
  std::string place;
  try {
    get(std::move(failed));
  } catch (const error& e) {
    place = e.place();
  }
  CHECK(place == missing);
}

TEST_CASE("programs: a deferred load is continued, and append adds an argument") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  auto number_of_tensors = with.load_async(
      file.name(), asio::deferred([](boost::system::error_code code, const model& loaded) {
        return asio::deferred.values(code, loaded.size());
      }));
  context.run_for(patience);
  CHECK(with.memory().tensor_bytes == 0);  // The deferred load has not started.
  std::string calls;
  std::move(number_of_tensors)([&](boost::system::error_code code, std::size_t size) {
    calls += std::to_string(code ? 0 : size);
  });
  with.load_async(missing, asio::append(
                               [&](boost::system::error_code code, const model&, char name) {
                                 if (code) calls += name;
                               },
                               'x'));
  context.restart();
  context.run_for(patience);
  CHECK((calls == "3x" || calls == "x3"));
}

TEST_CASE("programs: cancel_after ends a load that takes too long") {
#if BOOST_VERSION < 108600
  MESSAGE("skipped: asio::cancel_after needs Boost 1.86 or later");
#else
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  std::size_t tensors = 0;
  with.load_async(file.name(),
                  asio::cancel_after(patience, [&](boost::system::error_code, const model& loaded) {
                    tensors = loaded.size();
                  }));
  context.run_for(patience);
  CHECK(tensors == 3);
#endif
}

#if defined(__clang__)
TEST_CASE("programs: options take designated initialisers") {
  const made_file file(three_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  const auto program = [&]() -> asio::awaitable<std::size_t> {
    model loaded = co_await with.load_async(
        file.name(), {.select = select().names({"a"}), .route = read_route::buffered});
    co_return loaded.size();
  };
  auto size = asio::co_spawn(context, program(), asio::use_future);
  context.run_for(patience);
  CHECK(get(std::move(size)) == 1);
}
#endif
