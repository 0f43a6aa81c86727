// SPDX-License-Identifier: Apache-2.0

// Cancellation slots: what they cancel, what they do not, and when the handler is called.

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <deque>
#include <ringload/ringload.hpp>

#include "support/counted_device.hpp"
#include "support/distant_drive.hpp"
#include "support/made_checkpoint.hpp"
#include "support/scripted_loader.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

namespace asio = boost::asio;
using namespace ringload;
using namespace ringload::testing;
using namespace std::chrono_literals;

namespace {

const boost::system::error_code aborted = asio::error::operation_aborted;
const boost::system::error_code fine;

read_fate held(const io_request&, std::uint64_t) {
  return {.until_released = read_fate::hold::start};
}

read_fate held_when_read(const io_request&, std::uint64_t) {
  return {.until_released = read_fate::hold::completion};
}

// Options of a loader that waits for the reads of a stopped load for this time.
loader_options stopping_within(std::chrono::milliseconds time) {
  loader_options options = small_options(2);
  options.stop_time_max = time;
  return options;
}

// An operation whose handler runs in `context`, and can be cancelled by `signal`.
struct watched {
  asio::io_context context;
  asio::cancellation_signal signal;
  int calls = 0;
  boost::system::error_code code;

  auto handler() {
    return asio::bind_executor(
        context, asio::bind_cancellation_slot(signal.slot(),
                                              [this](boost::system::error_code failure, auto&&) {
                                                ++calls;
                                                code = failure;
                                              }));
  }
};

}  // namespace

TEST_CASE("load_async: every type of cancellation ends it, after the last read has landed") {
  const made_file file(equal_tensors(8, small_slot));
  for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                          asio::cancellation_type::total, asio::cancellation_type::all}) {
    for (const auto hold : {held, held_when_read}) {
      read_script script(hold);
      scripted_loader with(script, small_options(2), counted_host());
      watched one;
      with.load_async(file.name(), {}, one.handler());
      REQUIRE(script.wait_until_held(2));
      one.signal.emit(type);
      with.settle();
      one.context.poll();
      CHECK(one.calls == 0);  // Two reads are still in flight.
      script.release(0);
      with.settle();
      one.context.poll();
      CHECK(one.calls == 0);  // One read is still in flight.
      script.release_all();
      one.context.run_for(patience);
      CHECK(one.calls == 1);
      CHECK(one.code == aborted);
      CHECK(script.started() == 2);  // No new read was issued.
      CHECK(arenas_taken == 0);
    }
  }
}

TEST_CASE("load_async: after stop_time_max, a cancelled load completes without its reads") {
  const made_file file(equal_tensors(8, small_slot));
  for (const auto hold : {held, held_when_read}) {
    read_script script(hold);
    scripted_loader with(script, stopping_within(20ms), counted_host());
    watched cancelled;
    with.load_async(file.name(), {}, cancelled.handler());
    REQUIRE(script.wait_until_held(2));
    cancelled.signal.emit(asio::cancellation_type::terminal);
    cancelled.context.run_for(patience);
    CHECK(cancelled.calls == 1);
    CHECK(cancelled.code == aborted);
    CHECK(script.held() == 2);
    CHECK(arenas_taken == 1);  // The kernel may still write to this memory.
    script.release_all();
    with.settle();
    with.close();
    CHECK(arenas_taken == 0);
    CHECK(cancelled.calls == 1);
  }
}

TEST_CASE("load_async: with the largest stop_time_max, a cancelled load waits for its reads") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, stopping_within(std::chrono::milliseconds::max()), counted_host());
  watched cancelled;
  with.load_async(file.name(), {}, cancelled.handler());
  REQUIRE(script.wait_until_held(2));
  cancelled.signal.emit(asio::cancellation_type::terminal);
  cancelled.context.run_for(100ms);
  CHECK(cancelled.calls == 0);
  script.release_all();
  cancelled.context.run_for(patience);
  CHECK(cancelled.calls == 1);
  CHECK(cancelled.code == aborted);
}

TEST_CASE("load_operation: after stop_time_max, all operations complete, and later ones fail") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, stopping_within(0ms), counted_host());
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(2));
  auto tensor_wait = load.tensor_async("t5", use_future);
  auto next = load.next_async(use_future);
  auto finish = load.finish_async(use_future);
  load.cancel();
  CHECK(code_of(std::move(tensor_wait)) == aborted);
  CHECK(code_of(std::move(next)) == aborted);
  CHECK(code_of(std::move(finish)) == aborted);
  CHECK(code_of(load.tensor_async("t0", use_future)) == aborted);
  CHECK(code_of(load.next_async(use_future)) == aborted);
  CHECK(code_of(load.finish_async(use_future)) == aborted);
  CHECK(script.held() == 2);
}

TEST_CASE("tensor_stream: after stop_time_max, a cancelled load through a window completes") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, stopping_within(0ms), counted_host());
  tensor_stream stream = get(with.stream_async(file.name(), 4 * small_slot, use_future));
  auto next = stream.next_async(use_future);
  REQUIRE(script.wait_until_held(2));
  stream.cancel();
  CHECK(code_of(std::move(next)) == aborted);
  CHECK(script.held() == 2);
}

namespace {

// Two tensors that are large enough for reads directly into the memory of the caller, and memory
// for them.
class filled_memory {
 public:
  static constexpr std::size_t tensor_bytes = 16 * small_slot;

  filled_memory()
      : file_(equal_tensors(2, tensor_bytes)),
        opened_(get(loader(host(), small_options()).open_async(file_.name(), use_future))) {}

  std::vector<std::byte> bytes = std::vector<std::byte>(2 * tensor_bytes);

  bool contains(const std::byte* place) const {
    return place >= bytes.data() && place < bytes.data() + bytes.size();
  }
  std::string file_name() const { return file_.name(); }
  template <class Handler>
  void fill(scripted_loader& with, const load_options& options, Handler&& handler) {
    std::vector<destination> into;
    for (std::size_t i = 0; i < 2; ++i) {
      std::byte* const part = bytes.data() + i * tensor_bytes;
      into.emplace_back("t" + std::to_string(i), part, dtype::u8, std::vector{tensor_bytes});
    }
    with.fill_async(opened_, std::move(into), options, std::forward<Handler>(handler));
  }

 private:
  const made_file file_;
  const checkpoint opened_;
};

}  // namespace

TEST_CASE("fill_async: a cancelled fill waits for reads into the memory of the caller") {
  filled_memory memory;
  read_script script([&](const io_request& request, std::uint64_t number) {
    return memory.contains(request.memory) ? held(request, number) : read_fate();
  });
  scripted_loader with(script, stopping_within(0ms));
  watched cancelled;
  memory.fill(with, by(read_route::buffered), cancelled.handler());
  REQUIRE(script.wait_until_held(2));
  cancelled.signal.emit(asio::cancellation_type::terminal);
  cancelled.context.run_for(std::chrono::milliseconds(50));
  CHECK(cancelled.calls == 0);
  script.release(0);
  with.settle();
  cancelled.context.poll();
  CHECK(cancelled.calls == 0);
  script.release_all();
  cancelled.context.run_for(patience);
  CHECK(cancelled.calls == 1);
  CHECK(cancelled.code == aborted);
}

TEST_CASE("fill_async: on a distant mount, a cancelled fill completes, and writes nothing later") {
  for (const read_route route : {read_route::automatic, read_route::buffered}) {
    for (const auto hold : {held, held_when_read}) {
      CAPTURE(static_cast<int>(route));
      read_script script(hold);
      scripted_loader with(script, stopping_within(0ms));
      filled_memory memory;
      declare_distant(with, memory.file_name());
      watched cancelled;
      memory.fill(with, by(route), cancelled.handler());
      REQUIRE(script.wait_until_held(2));
      cancelled.signal.emit(asio::cancellation_type::terminal);
      cancelled.context.run_for(patience);
      CHECK(cancelled.calls == 1);
      CHECK(cancelled.code == aborted);
      CHECK(script.held() == 2);
      // The caller may use the memory again.
      std::ranges::fill(memory.bytes, std::byte{0xAA});
      script.release_all();
      with.settle();
      with.close();
      CHECK(std::ranges::count(memory.bytes, std::byte{0xAA}) == std::ssize(memory.bytes));
      CHECK(cancelled.calls == 1);
    }
  }
}

TEST_CASE("load_async: may be cancelled at once, before the file is open") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2), counted_host());
  for (int i = 0; i < 100; ++i) {
    script.hold_again();  // The load cannot complete first.
    watched one;
    with.load_async(file.name(), {}, one.handler());
    one.signal.emit(asio::cancellation_type::terminal);
    // A second cancellation has no effect.
    if (i % 2 == 0) one.signal.emit(asio::cancellation_type::terminal);
    with.settle();
    script.release_all();
    one.context.run_for(patience);
    REQUIRE(one.calls == 1);
    REQUIRE(one.code == aborted);
  }
  CHECK(arenas_taken == 0);
}

TEST_CASE("start_async: may be cancelled while it opens the file") {
  const made_file file(equal_tensors(8, small_slot));
  loader with(counted_host(), small_options(2));
  for (int i = 0; i < 100; ++i) {
    watched one;
    with.start_async(file.name(), one.handler());
    one.signal.emit(asio::cancellation_type::terminal);
    one.context.run_for(patience);
    REQUIRE(one.calls == 1);
    // The start may have completed first. Then the destroyed `load_operation` cancels the load.
    REQUIRE((one.code == aborted || one.code == fine));
  }
}

TEST_CASE("start_async: cancelling what has completed changes nothing") {
  const made_file file(equal_tensors(2, small_slot));
  read_script script([](const io_request&, std::uint64_t) {
    return read_fate{.until_released = read_fate::hold::start};
  });
  scripted_loader with(script, small_options());
  asio::io_context context;
  asio::cancellation_signal signal;
  std::optional<load_operation> started;
  const auto keep = [&](boost::system::error_code failure, load_operation load) {
    CHECK_FALSE(failure);
    started = std::move(load);
  };
  with.start_async(file.name(), {},
                   asio::bind_executor(context, asio::bind_cancellation_slot(signal.slot(), keep)));
  // The load has started, so the operation is complete, but its handler has not run.
  REQUIRE(script.wait_until_held(1));
  signal.emit(asio::cancellation_type::terminal);
  with.settle();
  context.run_for(patience);
  REQUIRE(started.has_value());
  script.release_all();
  CHECK(first_difference(get(started->finish_async(use_future))) == "");
}

TEST_CASE("a signal that was emitted before the operation began has no effect on it") {
  const made_file file(equal_tensors(2, small_slot));
  loader with(host(), small_options());
  watched one;
  one.signal.emit(asio::cancellation_type::terminal);
  with.load_async(file.name(), one.handler());
  one.context.run_for(patience);
  CHECK(one.calls == 1);
  CHECK(one.code == fine);
}

TEST_CASE("finish_async: cancelling what has completed changes nothing") {
  const made_file file(equal_tensors(2, small_slot));
  loader with(host(), small_options());
  load_operation load = get(with.start_async(file.name(), use_future));
  watched one;
  load.finish_async(one.handler());
  get(load.finish_async(use_future));  // Both complete together.
  SUBCASE("before its handler has run") {
    one.signal.emit(asio::cancellation_type::terminal);
    one.context.run_for(patience);
  }
  SUBCASE("after its handler has run") {
    one.context.run_for(patience);
    CHECK_FALSE(one.signal.slot().has_handler());
    one.signal.emit(asio::cancellation_type::terminal);
  }
  CHECK(one.calls == 1);
  CHECK(one.code == fine);
  CHECK(first_difference(get(load.finish_async(use_future))) == "");
}

TEST_CASE("tensor_async, next_async: cancelling one does not cancel the load") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2));
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(2));
  watched tensor_wait;
  watched next_wait;
  load.tensor_async("t5", tensor_wait.handler());
  load.next_async(next_wait.handler());
  auto other_tensor = load.tensor_async("t5", use_future);
  auto other_next = load.next_async(use_future);
  auto finish = load.finish_async(use_future);
  tensor_wait.signal.emit(asio::cancellation_type::total);
  next_wait.signal.emit(asio::cancellation_type::partial);
  // A wait holds no buffer, so it ends while the reads are held.
  tensor_wait.context.run_for(patience);
  next_wait.context.run_for(patience);
  CHECK(tensor_wait.calls == 1);
  CHECK(tensor_wait.code == aborted);
  CHECK(next_wait.calls == 1);
  CHECK(next_wait.code == aborted);
  CHECK_FALSE(ready(finish));

  script.release_all();
  CHECK(get(std::move(other_tensor)).name() == "t5");
  CHECK(get(std::move(other_next)).has_value());
  CHECK(first_difference(get(std::move(finish))) == "");
  for (int i = 1; i < 8; ++i) CHECK(get(load.next_async(use_future)).has_value());
  CHECK_FALSE(get(load.next_async(use_future)).has_value());
}

TEST_CASE("finish_async: cancelling it cancels the load and all its operations") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2), counted_host());
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(2));
  watched one;
  load.finish_async(one.handler());
  auto tensor_wait = load.tensor_async("t5", use_future);
  auto next = load.next_async(use_future);
  auto finish = load.finish_async(use_future);
  one.signal.emit(asio::cancellation_type::terminal);
  with.settle();
  CHECK_FALSE(ready(tensor_wait));
  CHECK_FALSE(ready(next));
  script.release_all();
  one.context.run_for(patience);
  CHECK(one.code == aborted);
  CHECK(code_of(std::move(tensor_wait)) == aborted);
  CHECK(code_of(std::move(next)) == aborted);
  CHECK(code_of(std::move(finish)) == aborted);
  CHECK(code_of(load.tensor_async("t0", use_future)) == aborted);
  CHECK(code_of(load.next_async(use_future)) == aborted);
  CHECK(script.started() == 2);
  CHECK(arenas_taken == 0);
}

TEST_CASE("a storm of cancelled loads: each handler is called once, and the loader goes on") {
  constexpr std::size_t loads = 300;
  const made_file file(equal_tensors(8, small_slot));
  loader with(counted_host(), small_options(4));
  std::atomic<std::size_t> ended = 0;
  std::atomic<int> wrong = 0;
  std::deque<asio::cancellation_signal> signals(loads);
  asio::thread_pool pool(2);
  for (std::size_t i = 0; i < loads; ++i) {
    // Asio requires that a cancellation slot is used on one strand.
    auto strand = asio::make_strand(pool);
    asio::post(strand, [&, strand, i] {
      auto handler = [&](boost::system::error_code failure, const model& loaded) {
        const auto code = failure;
        const bool good = code == aborted ? loaded.empty() : !code && loaded.size() == 8;
        if (!good) ++wrong;
        ++ended;
      };
      with.load_async(file.name(), asio::bind_executor(strand, asio::bind_cancellation_slot(
                                                                   signals[i].slot(), handler)));
      if (i % 3 == 0) signals[i].emit(asio::cancellation_type::terminal);
      if (i % 3 == 1) {
        asio::post(strand, [&signals, i] { signals[i].emit(asio::cancellation_type::total); });
      }
    });
  }
  pool.join();
  CHECK(ended == loads);
  CHECK(wrong == 0);
  CHECK(first_difference(get(with.load_async(file.name(), use_future))) == "");
}

TEST_CASE("a storm of cancelled waits: the load goes on, and the others get what they wait for") {
  constexpr std::size_t waits = 600;
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2));
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(2));
  std::deque<watched> all(waits);
  for (std::size_t i = 0; i < waits; ++i) {
    watched& one = all[i];
    if (i % 4 == 3) {
      load.next_async(one.handler());
    } else {
      load.tensor_async("t" + std::to_string(i % 8), one.handler());
    }
    // Cancels some loads at once, some after all have started, and some never.
    if (i % 3 == 0) one.signal.emit(asio::cancellation_type::terminal);
  }
  for (std::size_t i = 1; i < waits; i += 3) all[i].signal.emit(asio::cancellation_type::terminal);
  with.settle();
  script.release_all();
  CHECK(first_difference(get(load.finish_async(use_future))) == "");
  int wrong = 0;
  for (std::size_t i = 0; i < waits; ++i) {
    all[i].context.run_for(patience);
    const bool right = all[i].calls == 1 && all[i].code == (i % 3 == 2 ? fine : aborted);
    if (!right) ++wrong;
  }
  CHECK(wrong == 0);
}
