// SPDX-License-Identifier: Apache-2.0

// The division of a loader's workers among drives, without a load.

#include "runtime/drives.hpp"

#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <string>

using namespace ringload;
using detail::drive;
using detail::drives;

TEST_CASE("drives: one has all workers, of several each has its share") {
  boost::asio::io_context loop;
  const loader_options within;
  drives all(loop, within);
  all.set_reads_max(16);
  drive& slow = all.find_or_add(1);
  all.begin_load(slow);
  slow.workers = 16;
  CHECK(all.has_worker_for(slow));
  CHECK_FALSE(all.has_several());

  // From the time at which the other drive is known, half of the workers are reserved for it, even
  // without reads.
  drive& fast = all.find_or_add(2);
  CHECK(&all.find_or_add(1) == &slow);
  CHECK(&slow != &fast);
  CHECK(all.has_several());
  CHECK_FALSE(all.has_worker_for(slow));
  fast.workers = 7;
  CHECK(all.has_worker_for(fast));
  fast.workers = 8;
  CHECK_FALSE(all.has_worker_for(fast));
  all.begin_load(fast);
  CHECK_FALSE(all.has_worker_for(fast));

  // With a third drive, each drive has a third. Another load of the same drive changes nothing.
  drive& third = all.find_or_add(3);
  fast.workers = 5;
  all.begin_load(slow);
  CHECK(all.has_worker_for(fast));
  all.begin_load(third);
  CHECK_FALSE(all.has_worker_for(fast));
  all.end_load(third);
  CHECK(all.has_worker_for(fast));
}

TEST_CASE("drives: each has a worker, however many they are") {
  boost::asio::io_context loop;
  const loader_options within;
  drives all(loop, within);
  all.set_reads_max(2);
  for (std::uint64_t id = 0; id < 5; ++id) all.begin_load(all.find_or_add(id));
  for (std::uint64_t id = 0; id < 5; ++id) {
    CHECK(all.has_worker_for(all.find_or_add(id)));
    all.find_or_add(id).workers = 1;
    CHECK_FALSE(all.has_worker_for(all.find_or_add(id)));
  }
}

TEST_CASE("drives: their number is bounded, those beyond share the last one") {
  boost::asio::io_context loop;
  const loader_options within;
  drives all(loop, within);
  for (std::uint64_t id = 0; id + 1 < drives::drives_max; ++id) (void)all.find_or_add(id);
  drive& last = all.find_or_add(1000);
  CHECK(&all.find_or_add(1001) == &last);
  CHECK(&all.find_or_add(0) != &last);
}

TEST_CASE("drives: the bytes in flight are of the one that may have most") {
  boost::asio::io_context loop;
  loader_options within = chosen_options({}, device_kind::host);
  const drives none(loop, within);
  CHECK(none.bytes_in_flight_max() == bytes_in_flight_at_first);
  within.bytes_in_flight = 12'345'678;
  drives some(loop, within);
  CHECK(some.bytes_in_flight_max() == 12'345'678);
  CHECK(some.find_or_add(1).admission.bytes_max() == 12'345'678);
}

TEST_CASE("drives: latency raises the limit of a mount, and not of a block device") {
  boost::asio::io_context loop;
  const loader_options options = chosen_options({}, device_kind::host);
  drives all(loop, options, 64);
  const auto limit_after_reads = [&](std::uint64_t id, bool is_distant) {
    drive& used = all.find_or_add(id, is_distant);
    CHECK(used.admission.finds_late_reads() == is_distant);
    std::uint64_t bytes_in_flight = 0;
    for (int i = 0; i < 1000; ++i) {
      for (; bytes_in_flight < used.admission.bytes_max(); bytes_in_flight += options.slot_bytes) {
        boost::asio::co_spawn(loop, used.admission.acquire(options.slot_bytes, false),
                              boost::asio::detached);
      }
      loop.restart();
      loop.poll();
      // On a drive of this machine, all reads end at once. The tuner does not measure an idle
      // drive, so its limit does not depend on the time that the test takes.
      do {
        bytes_in_flight -= options.slot_bytes;
        used.admission.release(options.slot_bytes, std::chrono::milliseconds(50));
      } while (!is_distant && bytes_in_flight > 0);
    }
    return used.admission.bytes_max();
  };
  CHECK(limit_after_reads(1, true) == 64 * options.slot_bytes);
  CHECK(limit_after_reads(2, false) == bytes_in_flight_at_first);
}
