// SPDX-License-Identifier: Apache-2.0

// The parts of a load's state, tested separately: stop_state, check_queue, load_counters,
// load_waiters.

#include <doctest/doctest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "load/file_counters.hpp"
#include "load/load_counters.hpp"
#include "load/load_waiters.hpp"
#include "request/check_queue.hpp"
#include "runtime/stop_state.hpp"

using namespace ringload;
using detail::check_queue;
using detail::file_counters;
using detail::load_counters;
using detail::load_waiters;
using detail::stop_state;

namespace {

// Appends `name` to `log` when it completes, in capitals when it fails.
std::unique_ptr<detail::operation<tensor>> waiting(boost::asio::io_context& loop, std::string& log,
                                                   char name) {
  return detail::make_operation<tensor>(
      [&log, name](const boost::system::error_code& failure, const tensor&) {
        log += failure ? static_cast<char>(name - 'a' + 'A') : name;
      },
      loop.get_executor(), detail::cancel_by_any);
}

std::string completed(boost::asio::io_context& loop, std::string& log) {
  loop.restart();
  loop.poll();
  return std::exchange(log, {});
}

}  // namespace

TEST_CASE("stop_state: the first reason is kept") {
  stop_state how;
  CHECK(!how.stopped());
  how.stop({errc::truncated_file, "first"});
  how.stop({errc::changed_file, "second"});
  CHECK(how.stopped());
  CHECK(!how.finished());
  CHECK(how.cause().where() == "first");
}

TEST_CASE("stop_state: what is finished cannot be stopped") {
  stop_state how;
  how.finish();
  how.stop({errc::truncated_file, "late"});
  CHECK(how.finished());
  CHECK(!how.stopped());
}

TEST_CASE("check_queue: nothing is needed without digests") { CHECK(!check_queue().needed(0)); }

TEST_CASE("check_queue: awaited tensors first, each tensor once") {
  const std::vector<std::byte> digest(4);
  detail::tensor_check one;
  one.digest = digest;
  check_queue checks({one, one, one});
  CHECK(checks.needed(0));
  CHECK(!checks.take_next());
  checks.add(2);
  checks.add(0);
  checks.prioritize(1);
  checks.prioritize(0);
  CHECK(checks.take_prioritized() == 1);
  CHECK(checks.take_prioritized() == 0);
  CHECK(checks.take_next() == 2);
  CHECK(!checks.take_next());
  CHECK(checks.in_progress() == 3);
  checks.end_check();
  CHECK(checks.in_progress() == 2);
  CHECK(checks.check_of(1).has_digest());
}

TEST_CASE("load_counters: the first reason for the route is kept, and no reason is none") {
  load_counters counters;
  load_stats stats;
  counters.set_route_reason("");
  counters.fill_stats(stats);
  CHECK(stats.route_reason == "");
  counters.set_route_reason("first");
  counters.set_route_reason("second");
  counters.fill_stats(stats);
  CHECK(stats.route_reason == "first");
}

TEST_CASE("load_counters: the time stands still once the load has ended") {
  load_counters counters;
  load_stats first;
  counters.fill_stats(first);
  CHECK(first.seconds > 0);
  CHECK(first.seconds_opening == 0);
  CHECK(first.seconds_to_first_tensor == 0);
  counters.set_opened();
  counters.set_first_tensor();
  counters.set_ended();
  load_stats ended;
  counters.fill_stats(ended);
  load_stats later;
  counters.set_first_tensor();
  counters.fill_stats(later);
  CHECK(ended.seconds_opening > 0);
  CHECK(ended.seconds_opening <= ended.seconds_to_first_tensor);
  CHECK(ended.seconds_to_first_tensor <= ended.seconds);
  CHECK(later.seconds == ended.seconds);
  CHECK(later.seconds_to_first_tensor == ended.seconds_to_first_tensor);
}

TEST_CASE("file_counters: each file has its bytes and its times, one that is not read has none") {
  file_counters counters(file_counters::clock::now() - std::chrono::seconds(5), 3);
  counters.begin_read(0);
  counters.begin_read(2);
  counters.add_bytes(2, 4096);
  const std::vector<file_stats> first = counters.stats();
  REQUIRE(first.size() == 3);
  CHECK(first[0].bytes_read == 0);
  CHECK(first[0].seconds_to_first_read >= 5);
  CHECK(first[0].seconds_reading == 0);
  CHECK(first[0].bytes_per_second() == 0);
  CHECK(first[1].seconds_to_first_read == 0);
  CHECK(first[2].bytes_read == 4096);
  counters.begin_read(2);
  counters.add_bytes(2, 1);
  const std::vector<file_stats> later = counters.stats();
  CHECK(later[2].bytes_read == 4097);
  CHECK(later[2].seconds_to_first_read == first[2].seconds_to_first_read);
  CHECK(later[2].seconds_reading >= first[2].seconds_reading);
  CHECK(later[2].bytes_per_second() == 4097 / later[2].seconds_reading);
  CHECK(later[0].seconds_to_first_read == first[0].seconds_to_first_read);
  CHECK(later[2].seconds_device_wait == 0);
  counters.copied(2, 1'000'000'000);
  counters.copied(2, 500'000'000);
  CHECK(counters.stats()[2].seconds_device_wait == 1.5);
  CHECK(counters.stats()[0].seconds_device_wait == 0);
}

TEST_CASE("load_waiters: one that is removed is not completed, the others are, in order") {
  boost::asio::io_context loop;
  std::string log;
  load_waiters waiters;
  std::uint64_t ids[3] = {};
  for (int i = 0; i < 3; ++i) {
    ids[i] = waiters.new_id();
    waiters.tensors[7].add(ids[i], waiting(loop, log, static_cast<char>('a' + i)));
  }
  CHECK(!waiters.remove(6, ids[1]));
  CHECK(waiters.remove(7, ids[1]));
  CHECK(!waiters.remove(7, ids[1]));
  waiters.tensors[7].complete_all(tensor());
  CHECK(completed(loop, log) == "ac");
  CHECK(!waiters.remove(7, ids[0]));
}

TEST_CASE("load_waiters: at the end of a load everything that waits is completed, once") {
  for (const bool stopped : {false, true}) {
    CAPTURE(stopped);
    boost::asio::io_context loop;
    std::string log;
    load_waiters waiters;
    waiters.tensors[1].add(waiters.new_id(), waiting(loop, log, 'a'));
    waiters.tensors[1].add(waiters.new_id(), waiting(loop, log, 'b'));
    stop_state how;
    if (stopped) how.stop({errc::truncated_file, "here"});
    waiters.end_all(how, model(), checkpoint());
    CHECK(completed(loop, log) == (stopped ? "AB" : "ab"));
    waiters.end_all(how, model(), checkpoint());
    CHECK(completed(loop, log) == "");
  }
}
