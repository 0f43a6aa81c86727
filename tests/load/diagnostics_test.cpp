// SPDX-License-Identifier: Apache-2.0

// Diagnostics receive the place of a failure; the executors of handlers; kinds of sources.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <future>
#include <optional>
#include <ringload/ringload.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/made_checkpoint.hpp"
#include "support/sender_token.hpp"
#include "support/small_options.hpp"
#include "support/temporary_folder.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

const std::string missing = "/no/such/file.safetensors";

std::vector<made_tensor> some_tensors() { return {{"a", 1000}, f32("b", 30'000), {"c", 7}}; }

template <class T>
T run(asio::awaitable<T> work) {
  asio::io_context context;
  auto done = asio::co_spawn(context, std::move(work), asio::use_future);
  context.run_for(patience);
  return get(std::move(done));
}

void check_missing(const boost::system::error_code& code, const diagnostics& info) {
  CHECK(code == errc::source_not_found);
  CHECK(code == condition::not_found);
  CHECK(info.place == missing);
  CHECK(info.message().starts_with(missing + ": "));
}

struct receiver {
  std::promise<model>* loaded;
  std::promise<boost::system::error_code>* failed;

  void set_value(model m) { loaded->set_value(std::move(m)); }
  void set_error(const boost::system::error_code& code) { failed->set_value(code); }
  void set_stopped() { failed->set_value(asio::error::operation_aborted); }
};

}  // namespace

TEST_CASE("bind_diagnostics: stores place and cause before the handler is called") {
  loader with(host(), small_options());
  asio::io_context context;
  diagnostics info;
  bool called = false;
  auto handler = [&](boost::system::error_code code, const model& loaded) {
    called = true;
    CHECK(loaded.empty());
    check_missing(code, info);
  };
  with.load_async(missing, asio::bind_executor(context, bind_diagnostics(info, handler)));
  context.run_for(patience);
  CHECK(called);
}

TEST_CASE("bind_diagnostics: passes through adaptors, outside and inside of them") {
  loader with(host(), small_options());
  const auto outside = [&]() -> asio::awaitable<void> {
    diagnostics info;
    auto token = bind_diagnostics(info, asio::as_tuple(asio::use_awaitable));
    auto answer = co_await with.load_async(missing, token);
    check_missing(std::get<0>(answer), info);
  };
  run(outside());
  const auto redirected = [&]() -> asio::awaitable<void> {
    diagnostics info;
    boost::system::error_code code;
    auto token = bind_diagnostics(info, asio::redirect_error(asio::use_awaitable, code));
    co_await with.load_async(missing, token);
    check_missing(code, info);
  };
  run(redirected());
  asio::io_context context;
  diagnostics info;
  boost::system::error_code code;
  auto store = [&](boost::system::error_code failed, const model&) { code = failed; };
  auto strand = asio::make_strand(context);
  asio::cancellation_signal signal;
  with.load_async(missing,
                  asio::bind_executor(strand, asio::bind_cancellation_slot(
                                                  signal.slot(), bind_diagnostics(info, store))));
  context.run_for(patience);
  check_missing(code, info);
}

TEST_CASE("bind_diagnostics: passes through deferred, and does not change on success") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  diagnostics info;
  info.place = "unchanged";
  auto later = with.load_async(file.name(), bind_diagnostics(info, asio::deferred));
  CHECK(get(std::move(later)(use_future)).size() == 3);
  CHECK(info.place == "unchanged");
  auto never = with.load_async(missing, bind_diagnostics(info, asio::deferred));
  CHECK(code_of(std::move(never)(use_future)) == errc::source_not_found);
  CHECK(info.place == missing);
}

TEST_CASE("bind_diagnostics: the inner of two changes on failure, and does not on success") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  asio::io_context context;
  diagnostics outer;
  diagnostics inner;
  int calls = 0;
  const auto check_both = [&](const auto& begin) {
    outer = {"a previous failure", "its cause"};
    inner = {"unchanged", "also unchanged"};
    begin(file.name());
    context.restart();
    context.run_for(patience);
    CHECK(inner.place == "unchanged");
    CHECK(inner.cause == "also unchanged");
    begin(missing);
    context.restart();
    context.run_for(patience);
    CHECK(outer.place == missing);
    CHECK(inner.place == missing);
    CHECK(inner.cause == outer.cause);
  };
  check_both([&](const std::string& path) {
    auto handler = [&](boost::system::error_code, const model&) { ++calls; };
    with.load_async(path, asio::bind_executor(
                              context, bind_diagnostics(outer, bind_diagnostics(inner, handler))));
  });
  CHECK(calls == 2);
  check_both([&](const std::string& path) {
    auto handler = [&](const std::tuple<boost::system::error_code, model>&) { ++calls; };
    with.load_async(path,
                    asio::bind_executor(context, asio::as_tuple(bind_diagnostics(
                                                     outer, bind_diagnostics(inner, handler)))));
  });
  CHECK(calls == 4);
  check_both([&](const std::string& path) {
    auto handler = [&](const std::exception_ptr&, const model&) { ++calls; };
    with.load_async(path,
                    asio::bind_executor(context, as_exception(bind_diagnostics(
                                                     outer, bind_diagnostics(inner, handler)))));
  });
  CHECK(calls == 6);
}

TEST_CASE("as_exception: the exception has the place, also within and around bind_diagnostics") {
  loader with(host(), small_options());
  diagnostics info;
  const auto failed = failure_of(with.load_async(missing, bind_diagnostics(info, use_future)));
  REQUIRE(failed);
  CHECK(failed->place() == missing);
  check_missing(failed->code(), info);
  info = {};
  const auto other =
      failure_of(with.load_async(missing, as_exception(bind_diagnostics(info, asio::use_future))));
  REQUIRE(other);
  CHECK(other->place() == missing);
  check_missing(other->code(), info);
}

TEST_CASE("load_async: the failure of use_future alone is a system_error with the code") {
  loader with(host(), small_options());
  try {
    get(with.load_async(missing, asio::use_future));
    FAIL("no exception");
  } catch (const boost::system::system_error& failed) {
    CHECK(failed.code() == errc::source_not_found);
  }
}

TEST_CASE("loader: a handler without an executor runs on the loader's executor") {
  const made_file file(some_tensors());
  asio::io_context context;
  loader with(context, host(), small_options());
  CHECK(with.get_executor() == context.get_executor());
  int calls = 0;
  std::optional<load_operation> load;
  with.start_async(file.name(), [&](boost::system::error_code code, load_operation started) {
    CHECK_FALSE(code);
    CHECK(context.get_executor().running_in_this_thread());
    load = std::move(started);
    ++calls;
  });
  // The outstanding operation keeps run() from returning.
  context.run_for(patience);
  REQUIRE(calls == 1);
  CHECK(load->get_executor() == context.get_executor());
  context.restart();
  load->tensor_async("b", [&](boost::system::error_code code, const tensor& b) {
    CHECK_FALSE(code);
    CHECK(context.get_executor().running_in_this_thread());
    CHECK(b.size_bytes() == 120'000);
    ++calls;
  });
  context.run_for(patience);
  CHECK(calls == 2);
}

TEST_CASE("loader: takes an executor, and a strand of it") {
  const made_file file(some_tensors());
  asio::io_context context;
  loader with(asio::make_strand(context), host(), small_options());
  bool called = false;
  with.load_async(file.name(), [&](boost::system::error_code, const model& loaded) {
    called = loaded.size() == 3;
  });
  context.run_for(patience);
  CHECK(called);
}

TEST_CASE("loader: as_default_on gives all operations another default token") {
  const made_file file(some_tensors());
  asio::io_context context;
  using token = asio::as_tuple_t<asio::use_awaitable_t<>>;
  auto with = token::as_default_on(loader(context, host(), small_options()));
  const auto work = [&]() -> asio::awaitable<void> {
    auto answer = co_await with.load_async(file.name());
    CHECK_FALSE(std::get<0>(answer));
    CHECK(std::get<1>(answer).size() == 3);
    auto failed = co_await with.load_async(missing);
    CHECK(std::get<0>(failed) == errc::source_not_found);
  };
  auto done = asio::co_spawn(context, work(), asio::use_future);
  context.run_for(patience);
  get(std::move(done));
}

TEST_CASE("source: every form that names a checkpoint loads it") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  const std::filesystem::path path = file.name();
  const checkpoint opened = get(with.open_async(path, use_future));
  CHECK(get(with.load_async(path, use_future)).size() == 3);
  CHECK(get(with.load_async(file.name().c_str(), use_future)).size() == 3);
  CHECK(get(with.load_async(std::string_view(file.name()), use_future)).size() == 3);
  CHECK(get(with.load_async(std::vector{path}, use_future)).size() == 3);
  CHECK(get(with.load_async(opened, use_future)).size() == 3);
  CHECK(get(with.load_async(opened, by(read_route::buffered), use_future)).size() == 3);
  CHECK(get(with.load_async(path, select().names({"c"}), use_future)).size() == 1);

  const std::string text = file_text(file.name());
  const auto in_memory = [&] {
    return from_memory(std::as_bytes(std::span(text)), "m.safetensors");
  };
  CHECK(get(with.load_async(in_memory(), by(read_route::automatic), use_future)).size() == 3);
  load_operation load = get(with.start_async(in_memory(), use_future));
  CHECK(get(load.finish_async(use_future)).size() == 3);
}

TEST_CASE("source: several files are one checkpoint") {
  const made_file first({{"a", 1000}});
  const made_file second({{"b", 500}});
  loader with(host(), small_options());
  const std::string a = first.name();
  const std::string b = second.name();
  CHECK(get(with.load_async({a, b}, use_future)).size() == 2);
  CHECK(get(with.load_async({a.c_str(), b.c_str()}, use_future)).size() == 2);
  const std::filesystem::path path_of_a = a;
  CHECK(get(with.load_async({path_of_a, std::filesystem::path(b)}, use_future)).size() == 2);
  CHECK(get(with.load_async({std::string_view(a), std::filesystem::path(b)}, use_future)).size() ==
        2);
  CHECK(get(with.open_async(std::vector{a, b}, use_future)).size() == 2);
}

TEST_CASE("loader: an argument can be a list in braces inside a co_await expression") {
  const made_file file(some_tensors());
  const temporary_folder folder;
  const std::string a_to_c = (folder.path() / "a_to_c.safetensors").string();
  const std::string b_and_x = (folder.path() / "b_and_x.safetensors").string();
  std::vector<std::byte> a(1000);
  std::vector<std::byte> c(7);
  loader with(host(), small_options());
  const auto program = [&]() -> asio::awaitable<void> {
    model loaded;
    loaded = co_await with.load_async(file.name(),
                                      select().names({"c", file.name(), "a"}).allow_missing());
    CHECK(loaded.size() == 2);
    loaded = co_await with.load_async(file.name(), select().fused("ac", {"a", "c"}, 0));
    CHECK(loaded.at("ac").size_bytes() == 1007);
    loaded = co_await with.load_async(file.name(), select().names({}));
    CHECK(loaded.size() == 0);
    loaded = co_await with.load_async(file.name());
    const float x[6] = {};
    const std::vector<std::uint64_t> shape{3, 2};
    co_await with.save_async(a_to_c, {loaded.at("a"), loaded.at("b"), loaded.at("c")});
    co_await with.save_async(b_and_x, {loaded.at("b"),
                                       {"w", loaded.at("c")},
                                       {"x", x, dtype::f32, {2, 3}},
                                       {"y", x, dtype::f32, {shape.begin(), shape.end()}}});
    co_await with.fill_async(file.name(), {{"a", a.data(), dtype::u8, {1000}},
                                           destination("c", c.data(), dtype::u8, {7})});
  };
  run(program());
  const model copy = get(with.load_async(a_to_c, use_future));
  CHECK(copy.size() == 3);
  CHECK(std::ranges::equal(copy.at("a").as<std::byte>(), a));
  CHECK(std::ranges::equal(copy.at("c").as<std::byte>(), c));
  const model second = get(with.load_async(b_and_x, use_future));
  CHECK(second.size() == 4);
  CHECK(std::ranges::equal(second.at("w").as<std::byte>(), c));
  CHECK(std::ranges::equal(second.at("x").shape(), std::vector<std::uint64_t>{2, 3}));
  CHECK(std::ranges::equal(second.at("y").shape(), std::vector<std::uint64_t>{3, 2}));
}

TEST_CASE("source: an empty list of files is refused") {
  loader with(host(), small_options());
  const auto failed = failure_of(with.load_async(std::vector<std::string>(), use_future));
  CHECK(failed->code() == errc::invalid_source_name);
  CHECK(failed->code().message() == "not a valid name of a checkpoint");
  CHECK(holds(failed->what(), "the list of files is empty"));
}

TEST_CASE("fill_async: opens a checkpoint that is not open") {
  const made_file file({{"a", 1000}});
  loader with(host(), small_options());
  std::vector<std::byte> memory(1000);
  std::vector<destination> into = {{"a", memory.data(), dtype::u8, {1000}}};
  get(with.fill_async(file.name(), into, use_future));
  const model loaded = get(with.load_async(file.name(), use_future));
  CHECK(std::ranges::equal(memory, loaded.at("a").as<std::byte>()));
}

TEST_CASE("load_async: a completion token of another library starts it later") {
  const made_file file(some_tensors());
  loader with(host(), small_options());
  std::promise<model> loaded;
  std::promise<boost::system::error_code> failed;
  with.load_async(file.name(), use_sender).start(receiver{&loaded, &failed});
  CHECK(get(loaded.get_future()).size() == 3);
  with.load_async(missing, use_sender).start(receiver{&loaded, &failed});
  CHECK(get(failed.get_future()) == errc::source_not_found);
}
