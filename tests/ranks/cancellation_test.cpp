// SPDX-License-Identifier: Apache-2.0

// Calls of a group that are cancelled, or fail, at every point.

#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <ringload/group_load.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/descriptors.hpp"
#include "support/made_checkpoint.hpp"
#include "support/rank_threads.hpp"
#include "support/small_options.hpp"
#include "support/waiting.hpp"

using namespace ringload;
using namespace ringload::testing;
namespace asio = boost::asio;

namespace {

// A group that calls a function before one of this rank's messages.
class watched_group final : public group {
 public:
  watched_group(group& of, unsigned at, std::function<void()> then)
      : of_(of), at_(at), then_(std::move(then)) {}

  std::uint32_t rank() const noexcept override { return of_.rank(); }
  std::uint32_t size() const noexcept override { return of_.size(); }
  void send(std::span<const std::byte> bytes, std::uint32_t to) override {
    if (messages_++ == at_) then_();
    of_.send(bytes, to);
  }
  void receive(std::span<std::byte> bytes, std::uint32_t from) override {
    if (messages_++ == at_) then_();
    of_.receive(bytes, from);
  }
  void fail(std::string_view reason) noexcept override { of_.fail(reason); }
  void interrupt() noexcept override { of_.interrupt(); }

  bool came_to_it() const noexcept { return messages_ > at_; }

 private:
  group& of_;
  const unsigned at_;
  const std::function<void()> then_;
  unsigned messages_ = 0;
};

template <class T>
std::shared_ptr<T> borrowed(T& all) {
  return {std::shared_ptr<void>(), &all};
}

auto cancelled_by(asio::cancellation_signal& signal) {
  return asio::bind_cancellation_slot(signal.slot(), use_future);
}

void cancel(asio::cancellation_signal& signal) { signal.emit(asio::cancellation_type::terminal); }

// A load and a call of each kind.
void load_and_call(group& all, const std::string& file, asio::cancellation_signal& signal,
                   const group_options& how = {}) {
  loader with(host(), small_options(2, read_engine::threads));
  group_load load = get(load_async(with, borrowed(all), file, how, cancelled_by(signal)));
  (void)get(load.tensor_async("t0", cancelled_by(signal)));
  (void)get(load.shard_async("t1", 0, cancelled_by(signal)));
  (void)get(load.push_async("t2", 2, cancelled_by(signal)));
  (void)get(load.fused_async("both", {"t0", "t1"}, 0, cancelled_by(signal)));
}

// One rank calls `then` before each of its messages in turn. Its error must be `own`, and each
// other rank must have completed or have the error `others`.
void walk(std::uint32_t rank, const std::function<void(asio::cancellation_signal&)>& then,
          const std::string& own, const std::string& others) {
  const made_file file(equal_tensors(3, 50'000));
  const std::size_t before = open_descriptors();
  unsigned others_ended = 0;
  bool came_to_it = true;
  unsigned at = 0;
  for (; came_to_it; ++at) {
    const auto said = all_said(3, [&](group& all) {
      asio::cancellation_signal signal;
      if (all.rank() != rank) return load_and_call(all, file.name(), signal);
      watched_group watched(all, at, [&] { then(signal); });
      const std::string failed = what_of([&] { load_and_call(watched, file.name(), signal); });
      came_to_it = watched.came_to_it();
      if (!failed.empty()) throw std::runtime_error(failed);
    });
    CHECK(said[rank] == (came_to_it ? own : ""));
    for (std::uint32_t r = 0; r < 3; ++r) {
      if (r == rank || said[r].empty()) continue;
      CHECK(said[r] == others);
      ++others_ended;
    }
  }
  CHECK(at > 15);
  CHECK(others_ended > at);  // Usually both ranks.
  // The last step of a rank may destroy its loader in a detached thread.
  const auto until = std::chrono::steady_clock::now() + patience;
  while (open_descriptors() != before && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  CHECK(open_descriptors() == before);
}

}  // namespace

TEST_CASE("group_load: cancelled at any point, a call is aborted and the other ranks say why") {
  for (const std::uint32_t rank : {0U, 1U}) {
    walk(rank, cancel, "group_load: it was cancelled",
         "rank " + std::to_string(rank) + ": its call was cancelled");
  }
}

TEST_CASE("group_load: failing at any point, a rank says it, and the other ranks do") {
  const auto fails = [](asio::cancellation_signal&) {
    throw error(errc::remote_failed, "its network", "the cable is cut");
  };
  for (const std::uint32_t rank : {0U, 2U}) {
    walk(rank, fails, "its network: the cable is cut",
         "rank " + std::to_string(rank) + ": its network: the cable is cut");
  }
}

TEST_CASE("group_load: a call that was cancelled before its turn is aborted then") {
  const made_file file(equal_tensors(3, 50'000));
  std::promise<void> cancelled;
  const auto said = all_said(2, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    group_load load = get(load_async(with, borrowed(all), file.name(), {}, use_future));
    asio::cancellation_signal signal;
    if (all.rank() == 0) cancelled.get_future().wait();
    auto first = load.tensor_async("t0", use_future);
    auto second = load.tensor_async("t1", cancelled_by(signal));
    auto third = load.tensor_async("t2", use_future);
    if (all.rank() == 1) {
      cancel(signal);
      cancelled.set_value();
    }
    const auto first_code = code_of(std::move(first));
    const auto second_code = code_of(std::move(second));
    // Rank 0 may be notified during the first call.
    if (all.rank() == 1 && first_code) throw std::logic_error("the first");
    if (all.rank() == 1 && second_code != asio::error::operation_aborted) {
      throw std::logic_error("the second");
    }
    get(std::move(third));
  });
  for (const std::string& each : said) CHECK(each == "rank 1: its call was cancelled");
}

TEST_CASE("group_load: a cancellation after the end of its call changes nothing") {
  const made_file file(equal_tensors(3, 50'000));
  on_threads(3, [&](group& all) {
    asio::cancellation_signal signal;
    load_and_call(all, file.name(), signal);
    cancel(signal);
    all.barrier();
    return std::string();
  });
}

TEST_CASE("group_load: cancelled at any step of its loader, a call is aborted as well") {
  // Cancels at one step, in the thread that reports the step, before the operation can complete.
  struct canceller {
    asio::cancellation_signal& signal;
    unsigned left;
    static void told(const trace_event&, void* with) noexcept {
      auto& self = *static_cast<canceller*>(with);
      if (self.left-- == 0) cancel(self.signal);
    }
  };
  const made_file file(equal_tensors(3, 50'000));
  for (const group_reading reading : {group_reading::divided, group_reading::own}) {
    for (unsigned at = 0; at < 3; ++at) {
      const auto said = all_said(3, [&](group& all) {
        asio::cancellation_signal signal;
        canceller on = {signal, at};
        group_options how;
        how.reading = reading;
        if (all.rank() == 1) {
          how.load.trace = canceller::told;
          how.load.trace_context = &on;
        }
        load_and_call(all, file.name(), signal, how);
      });
      CHECK(said[0] == "rank 1: its call was cancelled");
      CHECK(said[1] == "group_load: it was cancelled");
      CHECK(said[2] == said[0]);
    }
  }
}

TEST_CASE("group_load: destroying the context of a handler cancels its call") {
  const made_file file(equal_tensors(3, 50'000));
  const auto said = all_said(2, [&](group& all) {
    loader with(host(), small_options(2, read_engine::threads));
    group_load load = get(load_async(with, borrowed(all), file.name(), {}, use_future));
    if (all.rank() == 0) return (void)get(load.tensor_async("t0", use_future));
    {
      asio::io_context context;
      load.tensor_async(
          "t1", asio::bind_executor(context, [](boost::system::error_code, const tensor&) {}));
    }
    get(load.tensor_async("t0", use_future));
  });
  // Its call also differs from that of rank 0. Rank 0 leaves after the first of the two reports,
  // which may arrive in any order.
  for (const std::string& each : said) {
    CAPTURE(each);
    CHECK((each == "rank 1: its call was cancelled" || holds(each, "it calls tensor('t1')") ||
           each == "rank 0: it has left the group"));
  }
}
