// SPDX-License-Identifier: Apache-2.0

// A handler is called once, on its executor, and its context runs until then.

#include <doctest/doctest.h>
#include <pthread.h>

#include <array>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <cstddef>
#include <future>
#include <memory>
#include <new>
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

// An executor that must use this allocator cannot post a function.
template <class T>
struct refusing_allocator {
  using value_type = T;

  refusing_allocator() = default;
  template <class U>
  refusing_allocator(const refusing_allocator<U>&) noexcept {}
  T* allocate(std::size_t) { throw std::bad_alloc(); }
  void deallocate(T*, std::size_t) noexcept {}
  friend bool operator==(const refusing_allocator&, const refusing_allocator&) = default;
};

struct counts {
  std::atomic<int> taken = 0;
  std::atomic<int> given_back = 0;
};

template <class T>
struct counting_allocator {
  using value_type = T;

  explicit counting_allocator(counts& in) noexcept : into(&in) {}
  template <class U>
  counting_allocator(const counting_allocator<U>& other) noexcept : into(other.into) {}

  T* allocate(std::size_t n) {
    ++into->taken;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* at, std::size_t n) {
    ++into->given_back;
    std::allocator<T>().deallocate(at, n);
  }
  template <class U>
  bool operator==(const counting_allocator<U>& other) const noexcept {
    return into == other.into;
  }

  counts* into;
};

// A handler that can be copied but not moved, so that each holder must destroy a copy. Counts the
// copies that the engine thread destroys.
struct left_behind {
  left_behind(asio::thread_pool& p, std::atomic<int>& n) : pool(&p), in_engine(&n) {}
  left_behind(const left_behind&) = default;
  ~left_behind() {
    std::array<char, 16> name = {};
    ::pthread_getname_np(::pthread_self(), name.data(), name.size());
    if (std::string_view(name.data()) == "ringload") ++*in_engine;
  }

  using executor_type = asio::thread_pool::executor_type;
  executor_type get_executor() const noexcept { return pool->get_executor(); }

  template <class T>
  void operator()(boost::system::error_code, const T&) const {}

  asio::thread_pool* pool;
  std::atomic<int>* in_engine;
};

// Runs posted functions at once in the posting thread, so that a handler runs before the engine
// thread continues.
class at_once {
 public:
  explicit at_once(asio::execution_context& in) noexcept : context_(&in) {}

  asio::execution_context& query(asio::execution::context_t) const noexcept { return *context_; }
  at_once require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
  template <class Function>
  void execute(Function function) const {
    function();
  }
  bool operator==(const at_once&) const noexcept = default;

 private:
  asio::execution_context* context_;
};

// Starts an operation whose handler's context does not run yet. Counts the calls of the handler
// before and after the context runs.
template <class Start>
std::pair<int, int> calls_before_and_after(Start start) {
  asio::io_context context;
  int calls = 0;
  start(asio::bind_executor(context, [&](boost::system::error_code, auto&&) { ++calls; }));
  const int before = calls;
  context.run_for(patience);
  return {before, calls};
}

const std::pair<int, int> only_after = {0, 1};

}  // namespace

TEST_CASE("every operation: never completes inline, and its handler is called once") {
  const made_file file(equal_tensors(3, 100'000));
  const made_file empty(made_file::as_it_is::text, "\x02" + std::string(7, '\0') + "{}");
  loader with(host(), small_options());
  for (const std::string& path : {file.name(), empty.name(), std::string("/no/such/file"),
                                  std::string(), file.name() + '\0' + "x"}) {
    CAPTURE(path);
    CHECK(calls_before_and_after([&](auto h) { with.load_async(path, std::move(h)); }) ==
          only_after);
    CHECK(calls_before_and_after([&](auto h) { with.start_async(path, std::move(h)); }) ==
          only_after);
  }

  load_operation load = get(with.start_async(file.name(), use_future));
  // The results of all later operations are known when they start.
  get(load.finish_async(use_future));
  CHECK(calls_before_and_after([&](auto h) { load.tensor_async("t1", std::move(h)); }) ==
        only_after);
  CHECK(calls_before_and_after([&](auto h) { load.tensor_async("none", std::move(h)); }) ==
        only_after);
  CHECK(calls_before_and_after([&](auto h) { load.next_async(std::move(h)); }) == only_after);
  CHECK(calls_before_and_after([&](auto h) { load.finish_async(std::move(h)); }) == only_after);
}

TEST_CASE("every operation: who drops what it was given has freed it") {
  const made_file file(equal_tensors(3, 100'000));
  asio::thread_pool context(1);
  std::promise<int> left;
  // The engine thread has released the operation, because otherwise the memory would still be
  // allocated.
  const auto dropping = [&] {
    left = {};
    return asio::bind_executor(at_once(context), [&](boost::system::error_code, auto given) {
      given = {};
      left.set_value(arenas_taken);
    });
  };
  loader with(counted_host(), small_options());
  with.load_async(file.name(), dropping());
  CHECK(left.get_future().get() == 0);

  const checkpoint opened = get(with.open_async(file.name(), use_future));
  with.load_async(opened, selection().names({"t1"}), dropping());
  CHECK(left.get_future().get() == 0);

  const model loaded = get(with.load_async(file.name(), use_future));
  with.copy_async(loaded[0], dropping());
  CHECK(left.get_future().get() == 1);
}

TEST_CASE("every operation: holds outstanding work of its handler's context") {
  const made_file file(equal_tensors(3, 100'000));
  read_script script(
      [](auto&, std::uint64_t) { return read_fate{.until_released = read_fate::hold::start}; });
  scripted_loader with(script, small_options());
  asio::io_context context;
  bool loaded = false;
  bool landed = false;
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(1));
  load.tensor_async("t2",
                    asio::bind_executor(context, [&](boost::system::error_code, const tensor& t) {
                      landed = t.size_bytes() == 100'000;
                    }));
  load.finish_async(asio::bind_executor(
      context, [&](boost::system::error_code, const model& m) { loaded = m.size() == 3; }));
  // Without outstanding work run() would return here, before the handlers are called.
  CHECK(context.poll() == 0);
  CHECK_FALSE(context.stopped());
  script.release_all();
  context.run_for(patience);
  CHECK(context.stopped());
  CHECK(landed);
  CHECK(loaded);
}

TEST_CASE("load_async: calls the handler in the pool that it is bound to") {
  const made_file file(equal_tensors(3, 100'000));
  loader with(host(), small_options());
  asio::thread_pool pool(2);
  std::promise<bool> called;
  with.load_async(file.name(),
                  asio::bind_executor(pool, [&](boost::system::error_code, const model&) {
                    called.set_value(pool.get_executor().running_in_this_thread());
                  }));
  CHECK(get(called.get_future()));
}

TEST_CASE("load_async: calls the handlers of one strand one after the other") {
  const made_file file(equal_tensors(3, 100'000));
  loader with(host(), small_options());
  asio::thread_pool pool(2);
  auto strand = asio::make_strand(pool);
  constexpr int loads = 40;
  int inside = 0;  // Not atomic: the strand serializes access.
  int done = 0;
  std::promise<void> all;
  std::atomic<int> elsewhere = 0;
  for (int i = 0; i < loads; ++i) {
    with.load_async(file.name(), asio::bind_executor(strand, [&](boost::system::error_code, model) {
                      if (!strand.running_in_this_thread() || ++inside != 1) ++elsewhere;
                      --inside;
                      if (++done == loads) all.set_value();
                    }));
  }
  get(all.get_future());
  CHECK(elsewhere == 0);
}

TEST_CASE("load_async: gives memory of the handler's allocator back before it calls the handler") {
  const made_file file(equal_tensors(3, 100'000));
  loader with(host(), small_options());
  asio::io_context context;
  counts memory;
  int taken = 0;
  int held = -1;
  auto handler = [&](boost::system::error_code, const model&) {
    taken = memory.taken;
    held = memory.taken - memory.given_back;
  };
  with.load_async(file.name(),
                  asio::bind_executor(
                      context, asio::bind_allocator(counting_allocator<void*>(memory), handler)));
  context.run_for(patience);
  CHECK(taken > 0);
  CHECK(held == 0);
}

TEST_CASE("every operation: no handler is destroyed in the engine thread") {
  const made_file file(equal_tensors(3, 100'000));
  loader with(host(), small_options());
  std::atomic<int> in_engine = 0;
  asio::thread_pool pool(1);
  load_operation load = get(with.start_async(file.name(), use_future));
  with.load_async(file.name(), left_behind(pool, in_engine));
  with.load_async("/no/such/file", left_behind(pool, in_engine));
  with.start_async(file.name(), left_behind(pool, in_engine));
  load.tensor_async("t2", left_behind(pool, in_engine));
  load.next_async(left_behind(pool, in_engine));
  load.finish_async(left_behind(pool, in_engine));
  pool.join();
  CHECK(in_engine == 0);
}

TEST_CASE("every operation: takes handlers that can only be moved") {
  const made_file file(equal_tensors(3, 100'000));
  loader with(host(), small_options());
  asio::io_context context;
  load_operation load = get(with.start_async(file.name(), use_future));
  int sum = 0;
  const auto adding = [&](int what) {
    return asio::bind_executor(context, [&sum, mine = std::make_unique<int>(what)](
                                            boost::system::error_code failure, auto&&) {
      if (!failure) sum += *mine;
    });
  };
  with.load_async(file.name(), adding(1));
  load.tensor_async("t0", adding(10));
  load.next_async(adding(100));
  load.finish_async(adding(1000));
  with.start_async(file.name(), adding(10'000));
  context.run_for(patience);
  CHECK(sum == 11'111);
}

TEST_CASE("operation: a handler that cannot be posted may start and end other operations") {
  asio::io_context context;
  const auto start = [&context](auto handler) {
    return detail::make_operation<int>(std::move(handler), context.get_executor(),
                                       detail::cancel_by_any);
  };
  int calls = 0;
  bool is_destroyed = false;
  const auto other = start([&](boost::system::error_code, int) { ++calls; });
  std::shared_ptr<void> at_destruction(nullptr, [&](void*) {
    is_destroyed = true;
    start([](boost::system::error_code, int) {}).reset();
    other->complete(1);
  });
  auto handler = [owned = std::move(at_destruction), &calls](boost::system::error_code, int) {
    calls += 100;
  };
  auto refused = start(asio::bind_allocator(refusing_allocator<int>(), std::move(handler)));
  CHECK_THROWS_AS(refused->complete(1), std::bad_alloc);
  CHECK(is_destroyed);
  refused.reset();
  context.run();
  CHECK(calls == 1);
}

TEST_CASE("every operation: may be begun by many threads at once") {
  const made_file file(equal_tensors(6, 100'000));
  loader with(host(), small_options());
  load_operation load = get(with.start_async(file.name(), use_future));
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      for (unsigned i = 0; i < 10; ++i) {
        const std::string name = "t" + std::to_string((n + i) % 6);
        auto one = load.tensor_async(name, use_future);
        auto other = with.load_async(file.name(), use_future);
        right += get(std::move(one)).name() == name ? 1 : 0;
        right += get(std::move(other)).size() == 6 ? 1 : 0;
        right += load.progress().tensors_total == 6 ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(right == 4 * 10 * 3);
}
