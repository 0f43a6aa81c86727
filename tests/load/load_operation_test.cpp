// SPDX-License-Identifier: Apache-2.0

// A load in progress: next_async, awaited tensors first, progress, cancel.

#include <doctest/doctest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <optional>
#include <ringload/ringload.hpp>
#include <set>

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

read_fate first_held(const io_request& what, std::uint64_t nth) {
  return nth == 0 ? held(what, nth) : read_fate();
}

bool touches(const io_request& read, const tensor_info& t) {
  return read.file_offset < t.offset + t.bytes && t.offset < read.file_offset + read.bytes;
}

}  // namespace

TEST_CASE("tensor_async: prioritizes the reads of an awaited tensor") {
  const made_file file(equal_tensors(8, 2 * small_slot));
  read_script script(first_held);
  scripted_loader with(script, small_options(1));
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(1));
  auto sixth = load.tensor_async("t6", use_future);
  auto third = load.tensor_async("t3", use_future);
  script.release_all();
  CHECK(get(std::move(sixth)).name() == "t6");
  CHECK(get(std::move(third)).name() == "t3");
  get(load.finish_async(use_future));

  const auto& tensors = load.catalog().tensors;
  const std::vector<io_request> log = script.log();
  std::size_t at = 1;  // After the read that was in flight.
  for (const char* name : {"t6", "t3"}) {
    const auto& awaited = tensors[name == std::string("t6") ? 6 : 3];
    const std::size_t begin = at;
    while (at < log.size() && touches(log[at], awaited)) ++at;
    CHECK(at - begin >= 2);
    // No read of the tensor is left.
    for (std::size_t i = at; i < log.size(); ++i) CHECK_FALSE(touches(log[i], awaited));
  }
  // Then the other tensors, each once, in the order of the file.
  CHECK(std::is_sorted(log.begin() + static_cast<std::ptrdiff_t>(at), log.end(),
                       [](const auto& a, const auto& b) { return a.file_offset < b.file_offset; }));
  std::set<std::uint64_t> offsets;
  for (const io_request& read : log) offsets.insert(read.file_offset);
  CHECK(offsets.size() == log.size());
}

TEST_CASE("tensor_async: completes when its tensor is loaded, before the others") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(1));
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  auto first = load.tensor_async("t0", use_future);
  auto last = load.tensor_async("t7", use_future);
  // Because of the header, the tensor needs two reads.
  for (int i = 0; i < 2; ++i) {
    REQUIRE(script.wait_until_held(1));
    CHECK_FALSE(ready(first));
    script.release(0);
    with.settle();
  }
  const tensor landed = get(std::move(first));
  REQUIRE(script.wait_until_held(1));
  CHECK(difference(landed, load.catalog().tensors[0], load.catalog()) == "");
  CHECK_FALSE(ready(last));
  CHECK(load.progress().tensors == 1);
  script.release_all();
  CHECK(get(std::move(last)).name() == "t7");
}

TEST_CASE("tensor_async: the same tensor may be awaited again, before and after it is loaded") {
  const made_file file(equal_tensors(4, small_slot));
  read_script script(first_held);
  scripted_loader with(script, small_options(1));
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(1));
  auto one = load.tensor_async("t2", use_future);
  auto other = load.tensor_async("t2", use_future);
  script.release_all();
  const tensor same = get(std::move(one));
  CHECK(get(std::move(other)).data() == same.data());
  CHECK(get(load.tensor_async("t2", use_future)).data() == same.data());
  CHECK(get(load.finish_async(use_future)).at("t2").data() == same.data());
  CHECK(get(load.tensor_async("t2", use_future)).data() == same.data());
}

TEST_CASE("tensor_async: a name that the checkpoint lacks is refused by name") {
  const made_file file(equal_tensors(2, 1000));
  loader with(host(), small_options());
  load_operation load = get(with.start_async(file.name(), use_future));
  for (const std::string name : {"t2", "T0", "", "a\nb"}) {
    const auto failed = failure_of(load.tensor_async(name, use_future));
    REQUIRE(failed);
    CHECK(failed->code() == errc::no_such_tensor);
    CHECK(holds(failed->what(), "model.safetensors"));
    CHECK_FALSE(holds(failed->what(), "\n"));
    if (name == "t2") CHECK(holds(failed->what(), "'t2'"));
  }
  CHECK(get(load.finish_async(use_future)).size() == 2);  // The load is not affected.
}

TEST_CASE("next_async: gives each tensor once, in the order of landing, and then none") {
  const made_file file(equal_tensors(6, small_slot));
  read_script script(first_held);
  scripted_loader with(script, small_options(1));
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(1));
  auto awaited = load.tensor_async("t4", use_future);
  std::vector<std::future<std::optional<tensor>>> waiting;
  for (int i = 0; i < 8; ++i) waiting.push_back(load.next_async(use_future));
  script.release_all();
  std::vector<std::string> order;
  for (auto& one : waiting) {
    const auto next = get(std::move(one));
    order.emplace_back(next ? next->name() : "none");
  }
  CHECK(order == std::vector<std::string>{"t4", "t0", "t1", "t2", "t3", "t5", "none", "none"});
  CHECK(get(std::move(awaited)).name() == "t4");
  CHECK_FALSE(get(load.next_async(use_future)).has_value());
}

TEST_CASE("next_async: what was cancelled meanwhile loses no tensor") {
  const made_file file(equal_tensors(50, 5000));
  loader with(host(), small_options());
  load_operation load = get(with.start_async(file.name(), use_future));
  std::set<std::string> seen;
  for (;;) {
    const auto next = get(load.next_async(use_future));
    if (!next) break;
    CHECK(seen.insert(std::string(next->name())).second);
  }
  CHECK(seen.size() == 50);
}

TEST_CASE("finish_async: may be called twice, concurrently and later") {
  const made_file file(equal_tensors(4, small_slot));
  loader with(host(), small_options());
  load_operation load = get(with.start_async(file.name(), use_future));
  auto one = load.finish_async(use_future);
  auto other = load.finish_async(use_future);
  const model loaded = get(std::move(one));
  CHECK(get(std::move(other)).at("t1").data() == loaded.at("t1").data());
  CHECK(get(load.finish_async(use_future)).at("t1").data() == loaded.at("t1").data());
  CHECK(first_difference(loaded) == "");
}

TEST_CASE("progress: grows with each read, and is complete at the end") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(1));
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  load_stats before = load.progress();
  CHECK(before.bytes == 0);
  CHECK(before.bytes_total == 8 * small_slot);
  CHECK(before.tensors_total == 8);
  auto finish = load.finish_async(use_future);
  std::uint64_t steps = 0;
  for (; script.wait_until_held(1); ++steps) {
    const load_stats now = load.progress();
    CHECK(now.reads == steps);
    CHECK(now.bytes >= before.bytes);
    CHECK(now.bytes == now.tensors * small_slot);
    CHECK(now.bytes_direct + now.bytes_buffered >= now.bytes);
    CHECK(now.bytes_arrived() >= now.bytes);
    CHECK(now.bytes_arrived() <= now.bytes_total);
    // Because of the header, the first tensor needs two reads.
    if (steps == 1) CHECK((now.tensors == 0 && now.bytes_arrived() > 0));
    CHECK(now.seconds >= before.seconds);
    before = now;
    if (now.tensors == 7 && now.reads == 8) break;
    script.release(0);
  }
  script.release_all();
  const load_stats last = get(std::move(finish)).stats();
  CHECK(last.bytes == last.bytes_total);
  CHECK(last.bytes_arrived() == last.bytes_total);
  CHECK(last.tensors == 8);
  CHECK(load.progress().bytes == last.bytes);
  CHECK(load.progress().seconds == last.seconds);  // The clock has stopped.
}

TEST_CASE("cancel: starts no new read, and completes all operations when none is in flight") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2), counted_host());
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(2));
  auto finish = load.finish_async(use_future);
  auto wait = load.tensor_async("t0", use_future);
  load.cancel();
  load.cancel();
  with.settle();
  CHECK_FALSE(ready(finish));
  CHECK_FALSE(ready(wait));
  auto late = load.tensor_async("t1", use_future);
  script.release_all();
  CHECK(code_of(std::move(wait)) == aborted);
  CHECK(code_of(std::move(late)) == aborted);
  CHECK(code_of(std::move(finish)) == aborted);
  CHECK(script.started() == 2);
  CHECK(arenas_taken == 0);
  CHECK(load.progress().tensors < 8);
}

TEST_CASE("cancel: has no effect once everything is loaded") {
  const made_file file(equal_tensors(2, small_slot));
  loader with(host(), small_options());
  load_operation load = get(with.start_async(file.name(), use_future));
  get(load.finish_async(use_future));
  load.cancel();
  CHECK(get(load.tensor_async("t0", use_future)).name() == "t0");
  CHECK(first_difference(get(load.finish_async(use_future))) == "");
}

TEST_CASE("destroying or replacing a loading cancels it") {
  const made_file file(equal_tensors(8, small_slot));
  read_script script(held);
  scripted_loader with(script, small_options(2), counted_host());
  load_operation load = get(with.start_async(file.name(), {}, use_future));
  REQUIRE(script.wait_until_held(2));
  auto finish = load.finish_async(use_future);
  SUBCASE("by assignment") { load = load_operation(); }
  SUBCASE("by destruction") { load_operation(std::move(load)); }
  with.settle();
  CHECK_FALSE(ready(finish));
  script.release_all();
  CHECK(code_of(std::move(finish)) == aborted);
  CHECK(script.started() == 2);
  CHECK(arenas_taken == 0);
}

TEST_CASE("a load that is assigned to an empty one completes its operations on its executor") {
  const made_file file({{"a", 100}});
  asio::io_context context;
  loader with(context, host(), small_options());
  load_operation load;
  tensor_stream stream;
  bool has_next = false;
  bool has_all = false;
  with.start_async(file.name(), [&](boost::system::error_code failed, load_operation started) {
    REQUIRE(!failed);
    load = std::move(started);
    CHECK(load.get_executor() == with.get_executor());
    load.finish_async([&](boost::system::error_code unfinished, const model& loaded) {
      has_all = !unfinished && loaded.size() == 1;
    });
  });
  with.stream_async(
      file.name(), 1 << 20, [&](boost::system::error_code failed, tensor_stream opened) {
        REQUIRE(!failed);
        stream = std::move(opened);
        stream.next_async(
            [&](boost::system::error_code without, const std::optional<tensor>& next) {
              has_next = !without && next.has_value();
            });
      });
  context.run();
  CHECK(has_all);
  CHECK(has_next);
}

TEST_CASE("destroying a loading after the load is complete keeps its tensors") {
  const made_file file(equal_tensors(8, small_slot));
  loader with(host(), small_options());
  model loaded;
  {
    load_operation load = get(with.start_async(file.name(), use_future));
    loaded = get(load.finish_async(use_future));
  }
  CHECK(first_difference(loaded) == "");
}
