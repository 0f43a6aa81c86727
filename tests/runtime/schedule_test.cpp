// SPDX-License-Identifier: Apache-2.0

// The order in which the steps of several works are carried out.

#include "runtime/schedule.hpp"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/worker.hpp"

using namespace ringload;
using namespace ringload::detail;

namespace {

// Writes "<name><step>" for each step that is carried out, and "<name><step>!" for an awaited step.
struct listed_work final : work {
  listed_work(std::string work_name, std::vector<std::string>& list)
      : name(std::move(work_name)), log(list) {}

  offer take_step(bool awaited) override {
    std::deque<std::uint32_t>& queue = awaited ? awaited_steps : steps;
    if (queue.empty()) return {std::nullopt, has_later_steps};
    const std::uint32_t step = queue.front();
    queue.pop_front();
    return {step};
  }
  boost::asio::awaitable<void> run(work_step& step, result<void>& outcome) override {
    const bool fails = step.index == failing_step;
    log.push_back(name + std::to_string(step.index) + (step.awaited ? "!" : ""));
    if (fails && !failure_text.empty()) throw std::runtime_error(failure_text);
    if (fails) throw std::bad_alloc();
    outcome = {};
    co_return;
  }
  void end(std::uint32_t step, const result<void>& outcome) override {
    if (outcome) return;
    failed.push_back(step);
    failures.push_back(outcome.error());
  }

  const std::string name;
  std::vector<std::string>& log;
  std::deque<std::uint32_t> steps;
  std::deque<std::uint32_t> awaited_steps;
  bool has_later_steps = false;
  std::uint32_t failing_step = ~0U;
  std::string failure_text;  // If not empty, the failing step throws std::runtime_error.
  std::vector<std::uint32_t> failed;
  std::vector<fault> failures;
};

using names = std::vector<std::string>;

// Runs one worker until nothing is left to do.
void run_worker(boost::asio::io_context& loop, schedule& steps) {
  boost::asio::co_spawn(loop, worker(steps, 0), boost::asio::detached);
  loop.poll();
}

}  // namespace

TEST_CASE("schedule: work takes turns") {
  boost::asio::io_context loop;
  schedule steps(loop);
  names log;
  const auto a = std::make_shared<listed_work>("a", log);
  const auto b = std::make_shared<listed_work>("b", log);
  a->steps = {0, 1, 2};
  b->steps = {0, 1};
  steps.add(a);
  steps.add(b);
  steps.add(b);  // A work that was added twice has one turn in each round.
  run_worker(loop, steps);
  CHECK(log == names{"a0", "b0", "a1", "b1", "a2"});
  steps.close();
  loop.restart();
  loop.run();
}

TEST_CASE("schedule: awaited steps come first, work that was added last comes last") {
  boost::asio::io_context loop;
  schedule steps(loop);
  names log;
  const auto load = std::make_shared<listed_work>("load", log);
  const auto save = std::make_shared<listed_work>("save", log);
  load->steps = {0, 1};
  load->awaited_steps = {7};
  save->steps = {0, 1};
  steps.add_last(save);
  steps.add(load);
  steps.prioritize(load);
  run_worker(loop, steps);
  CHECK(log == names{"load7!", "load0", "load1", "save0", "save1"});
  steps.close();
  loop.restart();
  loop.run();
}

TEST_CASE("schedule: work whose drive is busy keeps its place until there is room") {
  boost::asio::io_context loop;
  schedule steps(loop);
  names log;
  const auto busy = std::make_shared<listed_work>("busy", log);
  const auto other = std::make_shared<listed_work>("other", log);
  busy->has_later_steps = true;
  other->steps = {0};
  steps.add(busy);
  steps.add(other);
  run_worker(loop, steps);
  CHECK(log == names{"other0"});

  busy->has_later_steps = false;
  busy->steps = {3};
  steps.wake_worker();
  loop.restart();
  loop.poll();
  CHECK(log == names{"other0", "busy3"});
  steps.close();
  loop.restart();
  loop.run();
}

TEST_CASE("schedule: work that is removed is no longer held") {
  boost::asio::io_context loop;
  schedule steps(loop);
  names log;
  auto ended = std::make_shared<listed_work>("a", log);
  const auto other = std::make_shared<listed_work>("b", log);
  other->steps = {0};
  const std::weak_ptr<listed_work> left = ended;
  steps.add(other);
  steps.add(ended);
  steps.prioritize(ended);
  steps.add_last(ended);
  steps.remove(*ended);
  ended.reset();
  CHECK(left.expired());
  run_worker(loop, steps);
  CHECK(log == names{"b0"});
}

TEST_CASE("worker: a step that runs out of memory ends with that error, and the worker goes on") {
  boost::asio::io_context loop;
  schedule steps(loop);
  names log;
  const auto a = std::make_shared<listed_work>("a", log);
  a->steps = {0, 1};
  a->failing_step = 0;
  steps.add(a);
  run_worker(loop, steps);
  CHECK(log == names{"a0", "a1"});
  CHECK(a->failed == std::vector<std::uint32_t>{0});
  steps.close();
  loop.restart();
  loop.run();
}

TEST_CASE("worker: a step that throws any exception ends with its text, and the worker goes on") {
  boost::asio::io_context loop;
  schedule steps(loop);
  names log;
  const auto a = std::make_shared<listed_work>("a", log);
  a->steps = {0, 1};
  a->failing_step = 0;
  a->failure_text = "a timer failed";
  steps.add(a);
  run_worker(loop, steps);
  CHECK(log == names{"a0", "a1"});
  CHECK(a->failed == std::vector<std::uint32_t>{0});
  REQUIRE(a->failures.size() == 1);
  CHECK(a->failures.front().cause() == "a timer failed");
  steps.close();
  loop.restart();
  loop.run();
}

TEST_CASE("worker: returns when the schedule is closed") {
  boost::asio::io_context loop;
  schedule steps(loop);
  bool has_returned = false;
  boost::asio::co_spawn(loop, worker(steps, 3), [&](std::exception_ptr) { has_returned = true; });
  loop.poll();
  CHECK_FALSE(has_returned);
  steps.close();
  loop.restart();
  loop.run();
  CHECK(has_returned);
}
