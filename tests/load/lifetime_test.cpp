// SPDX-License-Identifier: Apache-2.0

// Destruction of the handler's context, the loader, the load_operation, the model and the tensors
// in every order.

#include <doctest/doctest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <filesystem>
#include <ringload/ringload.hpp>
#include <thread>

#include "support/counted_device.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;

namespace {

const boost::system::error_code aborted = asio::error::operation_aborted;

read_fate held(const io_request&, std::uint64_t) {
  return {.until_released = read_fate::hold::start};
}

// Awaits operations that never complete. Its frame contains `alive`.
asio::awaitable<void> wait_in_vain(load_operation load, std::shared_ptr<int> alive) {
  const std::shared_ptr<int> kept = alive;
  const tensor t = co_await load.tensor_async("t7");
  *kept = static_cast<int>(t.size_bytes());
}

asio::awaitable<void> load_in_vain(scripted_loader& with, std::string path,
                                   std::shared_ptr<int> alive) {
  const std::shared_ptr<int> kept = alive;
  model loaded = co_await with.load_async(path, {}, asio::use_awaitable);
  *kept = static_cast<int>(loaded.size());
}

asio::awaitable<void> own_a_loader(read_script& script, std::string path,
                                   std::shared_ptr<int> alive) {
  const std::shared_ptr<int> kept = alive;
  scripted_loader with(script, small_options(2), counted_host());
  model loaded = co_await with.load_async(path, {}, asio::use_awaitable);
  *kept = static_cast<int>(loaded.size());
}

// Runs functions at once, in the calling thread.
class inline_executor {
 public:
  explicit inline_executor(asio::execution_context& context) noexcept : context_(&context) {}

  asio::execution_context& query(asio::execution::context_t) const noexcept { return *context_; }
  inline_executor require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
  template <class Function>
  void execute(Function function) const {
    function();
  }
  bool operator==(const inline_executor&) const noexcept = default;

 private:
  asio::execution_context* context_;
};

// Calls `start(loader, owner)`, which starts an operation that keeps `owner` alive. `owner` owns
// the loader. Returns when the operation has completed with the code `expected` and the engine of
// the loader is destroyed.
template <class Start>
void run_as_owner(const Start& start, const boost::system::error_code& expected = {}) {
  auto owner = std::make_shared<loader>(counted_host(), small_options(2));
  loader& used = *owner;
  const std::weak_ptr<detail::engine> watch = used.loader_engine();
  const auto begin = std::chrono::steady_clock::now();
  auto started = start(used, std::move(owner));
  CHECK(code_of(std::move(started)) == expected);
  CHECK(comes_true([&] { return watch.expired(); }));
  CHECK(std::chrono::steady_clock::now() - begin < detail::engine::drain_max / 2);
}

// Returns when the engine accepts no more commands and waits for held reads.
void wait_until_closing(scripted_loader& with) {
  for (;;) {
    if (code_of(with.load_async("/no/such/file", {}, use_future)) == aborted) return;
  }
}

}  // namespace

TEST_CASE("destroying a context destroys the handlers of its operations, and cancels the loads") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2), counted_host());
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = alive;
  {
    asio::io_context context;
    const auto handler_in = [&](auto executor) {
      return asio::bind_executor(executor,
                                 [alive](boost::system::error_code, const model&) { *alive = 1; });
    };
    SUBCASE("of a callback") {
      with.load_async(file.name(), {}, handler_in(context.get_executor()));
    }
    SUBCASE("of a strand") {
      with.load_async(file.name(), {}, handler_in(asio::make_strand(context)));
    }
    SUBCASE("of a coroutine that loads") {
      asio::co_spawn(context, load_in_vain(with, file.name(), alive), asio::detached);
      context.poll();
    }
    SUBCASE("of a coroutine that owns the loading") {
      load_operation load = get(with.start_async(file.name(), {}, use_future));
      asio::co_spawn(context, wait_in_vain(std::move(load), alive), asio::detached);
      context.poll();
    }
    alive.reset();
    REQUIRE(script.wait_until_held(2));
    CHECK_FALSE(watch.expired());
  }
  CHECK(watch.expired());
  with.settle();
  script.release_all();
  with.close();
  CHECK(script.started() == 2);
  CHECK(arenas_taken == 0);
}

TEST_CASE("destroying a context destroys a coroutine that owns its loader") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  const auto alive = std::make_shared<int>(0);
  {
    asio::io_context context;
    asio::co_spawn(context, own_a_loader(script, file.name(), alive), asio::detached);
    context.poll();
    REQUIRE(script.wait_until_held(2));
  }
  CHECK(alive.use_count() == 1);
  CHECK(*alive == 0);
  CHECK(arenas_taken == 0);
}

TEST_CASE("a handler may destroy the loader") {
  const made_file file(equal_tensors(8, small_slot));
  for (int round = 0; round < 20; ++round) {
    auto with = std::make_unique<loader>(counted_host(), small_options(2));
    loader& same = *with;
    std::promise<std::size_t> called;
    auto other = same.load_async(file.name(), use_future);
    same.load_async(file.name(), [&called, owned = std::move(with)](boost::system::error_code,
                                                                    const model& m) mutable {
      owned.reset();
      called.set_value(m.size());
    });
    CHECK(get(called.get_future()) == 8);
    const auto code = code_of(std::move(other));
    CHECK((!code || code == aborted));
  }
}

TEST_CASE("destroying a pool with operations outstanding leaves the loader as it was") {
  const made_file file(equal_tensors(8, small_slot));
  loader with(counted_host(), small_options(2));
  for (int round = 0; round < 50; ++round) {
    asio::thread_pool pool(1);
    for (int i = 0; i < 4; ++i) {
      with.load_async(file.name(),
                      asio::bind_executor(pool, [](boost::system::error_code, model) {}));
    }
  }
  CHECK(first_difference(get(with.load_async(file.name(), use_future))) == "");
}

TEST_CASE("a handler that was posted and never run is destroyed with its context") {
  const made_file file(equal_tensors(8, small_slot));
  std::optional<loader> with(std::in_place, counted_host(), small_options(2));
  const auto alive = std::make_shared<int>(0);
  {
    asio::io_context context;
    load_operation load = get(with->start_async(file.name(), use_future));
    load.finish_async(
        asio::bind_executor(context, [alive](boost::system::error_code, const model&) {}));
    get(load.finish_async(use_future));  // Both operations complete together.
    CHECK(alive.use_count() == 2);
  }
  CHECK(alive.use_count() == 1);
  with.reset();
  CHECK(arenas_taken == 0);
}

TEST_CASE(
    "destroying the loader completes its loads with operation_aborted, once nothing is in flight") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2), counted_host());
  auto whole = with.load_async(file.name(), {}, use_future);
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  auto wait = load.tensor_async("t7", use_future);
  auto next = load.next_async(use_future);
  auto finish = load.finish_async(use_future);
  REQUIRE(script.wait_until_held(2));
  auto closed = std::async(std::launch::async, [&] { with.close(); });
  wait_until_closing(with);
  CHECK_FALSE(ready(closed));
  script.release_all();
  get(std::move(closed));
  CHECK(code_of(std::move(whole)) == aborted);
  CHECK(code_of(std::move(wait)) == aborted);
  CHECK(code_of(std::move(next)) == aborted);
  CHECK(code_of(std::move(finish)) == aborted);
  CHECK(script.started() == 2);
  CHECK(arenas_taken == 0);
}

TEST_CASE("closing a loader stops a user that is added meanwhile") {
  struct late_user final : detail::engine_user {
    void stop_at_close() override { ++stops; }
    int stops = 0;
  };
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2), counted_host());
  auto loaded = with.load_async(file.name(), {}, use_future);
  REQUIRE(script.wait_until_held(2));
  auto closed = std::async(std::launch::async, [&] { with.close(); });
  wait_until_closing(with);

  const auto user = std::make_shared<late_user>();
  std::promise<int> stops;
  auto stops_of_user = stops.get_future();
  detail::engine& running = *with.loader_engine();
  asio::post(running.loop, [&] {
    running.add_user(user);
    stops.set_value(user->stops);
    running.remove_user(*user);
  });
  CHECK(get(std::move(stops_of_user)) == 1);
  script.release_all();
  get(std::move(closed));
  CHECK(code_of(std::move(loaded)) == aborted);
  CHECK(user->stops == 1);
}

TEST_CASE("a loader may be destroyed while its loads open their files") {
  const made_file file(equal_tensors(8, small_slot));
  for (int round = 0; round < 50; ++round) {
    std::vector<std::future<model>> all;
    {
      loader with(counted_host(), small_options(2));
      for (int i = 0; i < 5; ++i) {
        all.push_back(with.load_async(file.name(), use_future));
      }
    }
    for (auto& one : all) {
      const auto code = code_of(std::move(one));
      REQUIRE((!code || code == aborted));
    }
  }
  CHECK(arenas_taken == 0);
}

TEST_CASE("operations on a destroyed loader complete with operation_aborted") {
  const made_file file(equal_tensors(2, small_slot));
  std::optional<loader> with(std::in_place, host(), small_options());
  load_operation load = get(with->start_async(file.name(), use_future));
  const model loaded = get(load.finish_async(use_future));
  auto later = with->load_async(file.name(), asio::deferred);
  auto start_later = with->start_async(file.name(), asio::deferred);
  with.reset();
  CHECK(code_of(std::move(later)(use_future)) == aborted);
  CHECK(code_of(std::move(start_later)(use_future)) == aborted);
  CHECK(code_of(load.tensor_async("t0", use_future)) == aborted);
  CHECK(code_of(load.tensor_async("none", use_future)) == errc::no_such_tensor);
  CHECK(code_of(load.next_async(use_future)) == aborted);
  const auto failed = failure_of(load.finish_async(use_future));
  REQUIRE(failed);
  CHECK(failed->code() == aborted);
  CHECK(holds(failed->what(), "the loader was destroyed"));
  CHECK(load.progress().tensors == 2);
  CHECK(load.catalog().tensors.size() == 2);
  load.cancel();
  CHECK(first_difference(loaded) == "");
}

TEST_CASE("an operation may keep the last owner of its loader alive") {
  const made_file file(equal_tensors(1, small_slot));
  std::string memory(small_slot, ' ');
  SUBCASE("the owner of a destination") {
    run_as_owner([&](loader& used, std::shared_ptr<void> owner) {
      std::vector<destination> into = {{"t0", memory.data(), dtype::u8, {memory.size()}}};
      into.front().owner = std::move(owner);
      return used.fill_async(file.name(), std::move(into), use_future);
    });
    CHECK(memory == noise(small_slot, 1));
  }
  SUBCASE("the owner of a tensor that is saved") {
    const temporary_folder folder;
    run_as_owner([&](loader& used, std::shared_ptr<void> owner) {
      std::vector<tensor_ref> saved = {{"t0", memory.data(), dtype::u8, {memory.size()}}};
      saved.front().owner = std::move(owner);
      return used.save_async(folder.path() / "out.safetensors", std::move(saved), use_future);
    });
    CHECK(std::filesystem::exists(folder.path() / "out.safetensors"));
  }
  SUBCASE("the owner of a destination that is updated") {
    memory = noise(small_slot, 1);
    const made_file next(made_file::as_it_is::text,
                         checkpoint_text(equal_tensors(1, small_slot), 0, 2));
    const temporary_folder folder;
    const std::string delta = (folder.path() / "d.zt").string();
    {
      loader maker(host(), small_options());
      get(save_delta_async(maker, delta, file.name(), next.name(), use_future));
    }
    run_as_owner([&](loader& used, std::shared_ptr<void> owner) {
      std::vector<destination> into = {{"t0", memory.data(), dtype::u8, {memory.size()}}};
      into.front().owner = std::move(owner);
      return update_async(used, std::move(into), delta, use_future);
    });
    CHECK(memory == noise(small_slot, 2));
  }
  SUBCASE("the owner of a destination of an update that fails") {
    const auto update = [&](loader& used, std::shared_ptr<void> owner) {
      // The delay gives the loader time to cancel its operations, before the update completes.
      auto release = [owner = std::move(owner)](void*) mutable {
        owner.reset();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      };
      std::vector<destination> into = {{"t0", memory.data(), dtype::u8, {memory.size()}}};
      into.front().owner = std::shared_ptr<void>(memory.data(), std::move(release));
      return update_async(used, std::move(into), "/no/such/file", use_future);
    };
    run_as_owner(update, errc::source_not_found);
  }
  SUBCASE("the predicate of a selection") {
    run_as_owner([&](loader& used, std::shared_ptr<void> owner) {
      selection chosen;
      chosen.where([owner = std::move(owner)](const tensor_info&) { return owner != nullptr; });
      return used.load_async(file.name(), std::move(chosen), use_future);
    });
  }
}

TEST_CASE("an operation on a destroyed loader releases the owners before its completion") {
  std::string memory(100, ' ');
  auto owner = std::make_shared<int>();
  const std::weak_ptr<int> watch = owner;
  std::vector<destination> into = {{"t0", memory.data(), dtype::u8, {memory.size()}}};
  into.front().owner = owner;
  std::vector<tensor_ref> saved = {{"t0", memory.data(), dtype::u8, {memory.size()}}};
  saved.front().owner = std::move(owner);
  asio::io_context context;
  int calls = 0;
  auto handler = asio::bind_executor(inline_executor(context),
                                     [&](const boost::system::error_code& code, const auto&) {
                                       ++calls;
                                       CHECK(code == aborted);
                                       CHECK(watch.expired());
                                     });
  std::optional<loader> with(std::in_place, host(), small_options());
  SUBCASE("a fill") {
    saved.clear();
    auto later = with->fill_async("/no/such/file", std::move(into), asio::deferred);
    with.reset();
    std::move(later)(std::move(handler));
  }
  SUBCASE("a save") {
    into.clear();
    auto later =
        with->save_async("/no/such/folder/out.safetensors", std::move(saved), asio::deferred);
    with.reset();
    std::move(later)(std::move(handler));
  }
  SUBCASE("an update") {
    saved.clear();
    auto later = update_async(*with, std::move(into), "/no/such/file", asio::deferred);
    with.reset();
    std::move(later)(std::move(handler));
  }
  CHECK(calls == 1);
}

TEST_CASE("tensors outlive model, loading and loader") {
  auto file = std::make_optional<made_file>(equal_tensors(3, 100'000));
  const std::string path = file->name();
  tensor first;
  tensor second;
  tensor third;
  catalog described;
  {
    loader with(counted_host(), small_options());
    load_operation load = get(with.start_async(path, use_future));
    described = load.catalog();
    first = get(load.tensor_async("t0", use_future));
    second = get(load.next_async(use_future)).value();
    third = get(load.finish_async(use_future)).at("t2");
  }
  const tensor copy = first;
  CHECK(difference(copy, described.tensors[0], described) == "");
  CHECK(difference(third, described.tensors[2], described) == "");
  CHECK(bytes_of(second).size() == 100'000);
  CHECK(first.device() == host());
  CHECK(arenas_taken == 1);
  first = second = tensor();
  CHECK(difference(copy, described.tensors[0], described) == "");
  third = tensor();
  CHECK(arenas_taken == 1);
  CHECK(copy.name() == "t0");
}

TEST_CASE("a tensor loaded before the load was cancelled stays valid") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(
      [](const io_request&, std::uint64_t nth) { return nth < 3 ? read_fate() : held({}, nth); });
  scripted_loader with(script, small_options(1), counted_host());
  tensor landed;
  catalog described;
  {
    load_operation load = get(with.start_async(file.name(), {}, use_future));
    described = load.catalog();
    landed = get(load.tensor_async("t0", use_future));
    REQUIRE(script.wait_until_held(1));
    load.cancel();
    auto finish = load.finish_async(use_future);
    with.settle();
    script.release_all();
    CHECK(code_of(std::move(finish)) == aborted);
  }
  with.close();
  CHECK(arenas_taken == 1);
  CHECK(difference(landed, described.tensors[0], described) == "");
  landed = tensor();
  CHECK(arenas_taken == 0);
}

TEST_CASE(
    "lifetime: if a read never completes, closing returns all the same, and leaks its memory") {
  const made_file file(equal_tensors(2, small_slot));
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::start};
  });
  {
    scripted_loader with(script, small_options(2), counted_host());
    auto loaded = with.load_async(file.name(), {}, use_future);
    REQUIRE(script.wait_until_held(2));
    with.close(std::chrono::milliseconds(1));
    CHECK_FALSE(ready(loaded));
    CHECK(arenas_taken == 1);
    // When the read completes, the detached thread ends.
    script.release_all();
    CHECK(code_of(std::move(loaded)) == asio::error::operation_aborted);
  }
  const auto begin = std::chrono::steady_clock::now();
  while (arenas_taken > 0 && std::chrono::steady_clock::now() - begin < patience) {
    std::this_thread::yield();
  }
  CHECK(arenas_taken == 0);
}

TEST_CASE("the last owner of a load's storage frees its memory at once") {
  const made_file file(equal_tensors(2, small_slot));
  read_script script;
  scripted_loader with(script, small_options(), counted_host());
  std::optional<load_operation> load(get(with.start_async(file.name(), {}, use_future)));
  model loaded = get(load->finish_async(use_future));
  with.settle();
  loaded = {};
  CHECK(arenas_taken == 1);  // A `load_operation` gives access to its tensors.
  load.reset();
  CHECK(arenas_taken == 0);
}
