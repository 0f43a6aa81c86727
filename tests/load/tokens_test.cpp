// SPDX-License-Identifier: Apache-2.0

// Every completion token of Boost 1.81, on the operations of the public API.

#include <doctest/doctest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_future.hpp>
#include <ringload/ringload.hpp>

#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

std::vector<made_tensor> some_tensors() { return {{"a", 1000}, f32("b", 30'000), {"c", 7}}; }

template <class T>
T run(asio::awaitable<T> work) {
  asio::io_context context;
  auto done = asio::co_spawn(context, std::move(work), use_future);
  context.run_for(patience);
  return get(std::move(done));
}

asio::awaitable<model> by_default_token(loader& with, std::string path) {
  model loaded = co_await with.load_async(path);
  co_return loaded;
}

asio::awaitable<model> with_options(loader& with, std::string path) {
  model loaded = co_await with.load_async(path, by(read_route::buffered));
  co_return loaded;
}

asio::awaitable<model> by_use_awaitable(loader& with, std::string path) {
  model loaded = co_await with.load_async(path, asio::use_awaitable);
  co_return loaded;
}

asio::awaitable<std::string> tensor_by_tensor(loader& with, std::string path) {
  load_operation load = co_await with.start_async(path);
  const tensor b = co_await load.tensor_async("b");
  std::string seen(b.name());
  for (;;) {
    auto next = co_await load.next_async();
    if (!next) break;
    seen += next->name();
  }
  model whole = co_await load.finish_async();
  seen += first_difference(whole);
  co_return seen;
}

asio::awaitable<boost::system::error_code> by_as_tuple(loader& with, std::string path) {
  constexpr auto token = asio::as_tuple(asio::use_awaitable);
  auto answer = co_await with.load_async(path, token);
  CHECK(std::get<1>(answer).empty() == bool(std::get<0>(answer)));
  co_return std::get<0>(answer);
}

asio::awaitable<boost::system::error_code> by_redirect_error(loader& with, std::string path) {
  boost::system::error_code code;
  model loaded = co_await with.load_async(path, asio::redirect_error(asio::use_awaitable, code));
  CHECK(loaded.empty() == bool(code));
  co_return code;
}

}  // namespace

TEST_CASE("load_async: calls a callback with no executor of its own") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  std::promise<model> called;
  with.load_async(file.name(), [&](boost::system::error_code failure, model loaded) {
    CHECK_FALSE(failure);
    called.set_value(std::move(loaded));
  });
  CHECK(first_difference(get(called.get_future())) == "");
}

TEST_CASE("load_async: gives a future, with no context running") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(loaded.size() == 3);
  CHECK(first_difference(loaded) == "");
  CHECK(code_of(with.load_async(file.name() + "x", use_future)) == errc::source_not_found);
}

TEST_CASE("load_async: is awaited, by its default token, with options, and by use_awaitable") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  CHECK(first_difference(run(by_default_token(with, file.name()))) == "");
  CHECK(run(by_default_token(with, file.name())).size() == 3);
  CHECK(run(by_use_awaitable(with, file.name())).size() == 3);
  const model buffered = run(with_options(with, file.name()));
  CHECK(first_difference(buffered) == "");
  CHECK(buffered.stats().bytes_direct == 0);
}

TEST_CASE("load_async: throws into the coroutine that awaits it") {
  loader with(host(), small_options());
  CHECK_THROWS_AS(run(by_default_token(with, "/no/such/file")), const error&);
  CHECK_THROWS_AS(run(by_use_awaitable(with, "/no/such/file")), const boost::system::system_error&);
}

TEST_CASE("start_async, tensor_async, next_async, finish_async: are awaited one by one") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  std::string seen = run(tensor_by_tensor(with, file.name()));
  std::sort(seen.begin(), seen.end());
  CHECK(seen == "abbc");
}

TEST_CASE("load_async: deferred begins nothing until it is called") {
  const temporary_folder folder;
  const std::string path = (folder.path() / "later.safetensors").string();
  loader with(host(), small_options());
  auto later = with.load_async(path, asio::deferred);
  write_file(path, checkpoint_text(some_tensors()));
  CHECK(first_difference(get(std::move(later)(use_future))) == "");
}

TEST_CASE("start_async and the operations of a loading: are deferred") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  load_operation load = get(with.start_async(file.name(), asio::deferred)(use_future));
  CHECK(get(load.tensor_async("c", asio::deferred)(use_future)).size_bytes() == 7);
  CHECK(get(load.next_async(asio::deferred)(use_future)).has_value());
  CHECK(get(load.finish_async(asio::deferred)(use_future)).size() == 3);
}

TEST_CASE("load_async: as_tuple gives the failure as a value") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  CHECK(run(by_as_tuple(with, file.name())) == boost::system::error_code());
  CHECK(run(by_as_tuple(with, file.name() + "x")) == errc::source_not_found);
}

TEST_CASE("load_async: redirect_error stores the code and does not throw") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  CHECK(run(by_redirect_error(with, file.name() + "x")) == errc::source_not_found);
  CHECK(run(by_redirect_error(with, file.name())) == boost::system::error_code());
}

TEST_CASE("load_async: detached loads all the same") {
  const made_file file(some_tensors());
  read_script script;
  scripted_loader with(script, small_options());
  asio::io_context context;
  with.load_async(file.name(), {}, asio::bind_executor(context, asio::detached));
  CHECK(context.run_for(patience) == 1);
  CHECK(script.started() >= 2);
}
