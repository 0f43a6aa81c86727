// SPDX-License-Identifier: Apache-2.0

// Late reads of simulated mounts. Time is a number: no test waits.

#include "runtime/read_pace.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "io/late_read.hpp"

using ringload::lateness;
using ringload::steady_lateness;
using ringload::usual_lateness;
using ringload::detail::read_pace;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr double never = 1e9;

// A mount that answers one read after the other.
struct mount {
  double latency;
  double bandwidth;  // Bytes per second.
};

class simulated_reads {
 public:
  explicit simulated_reads(const mount& source) : source_(source) {}

  read_pace pace;

  // Starts a read that ends `stall` seconds later than the mount allows. Returns its number.
  std::size_t start(std::uint64_t bytes, double stall = 0) {
    link_free_ = std::max(now_ + source_.latency, link_free_) + double(bytes) / source_.bandwidth;
    reads_.push_back({pace.start(bytes, bytes_in_flight_, time(now_)), link_free_ + stall});
    bytes_in_flight_ += bytes;
    return reads_.size() - 1;
  }

  // Ends the read that ends next. Returns how many of the reads in flight were late before its end.
  int end_next() {
    const auto next = std::ranges::min_element(reads_, {}, &simulated_read::ends_at);
    int late = 0;
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      const bool in_flight = reads_[i].ends_at != never;
      if (in_flight && late_at(i) < next->ends_at) ++late;
    }
    now_ = next->ends_at;
    bytes_in_flight_ -= next->read.bytes;
    pace.completed(next->read, time(now_));
    next->ends_at = never;
    return late;
  }

  struct repetition {
    bool is_repeated = false;
    bool was_repeated = false;
  };
  // Starts a read that ends at once.
  void end_now(const repetition& repeated) {
    read_pace::started_read read = pace.start(4 * mib, bytes_in_flight_, time(now_));
    read.is_repeated = repeated.is_repeated;
    read.was_repeated = repeated.was_repeated;
    pace.completed(read, time(now_));
  }

  // Keeps `depth` reads in flight until `count` reads have ended. Returns the number of late reads.
  int run(int count, std::uint64_t bytes, std::uint64_t depth) {
    int late = 0;
    for (int i = 0; i < count; ++i) {
      while (bytes_in_flight_ < depth * bytes) start(bytes);
      late += end_next();
    }
    return late;
  }
  int drain() {
    int late = 0;
    while (bytes_in_flight_ > 0) late += end_next();
    return late;
  }

  double now() const { return now_; }
  // In seconds. `never` if the mount was not measured.
  double late_at(std::size_t number) const { return seconds(pace.late_at(reads_[number].read)); }
  double check_at(std::size_t number) const {
    return seconds(pace.check_at(reads_[number].read, time(now_)));
  }

 private:
  struct simulated_read {
    read_pace::started_read read;
    double ends_at;
  };
  static read_pace::clock::time_point time(double seconds) {
    return read_pace::clock::time_point(
        duration_cast<read_pace::clock::duration>(std::chrono::duration<double>(1000 + seconds)));
  }

  static double seconds(const std::optional<read_pace::clock::time_point>& at) {
    return at ? std::chrono::duration<double>(at->time_since_epoch()).count() - 1000 : never;
  }

  const mount source_;
  double now_ = 0;
  double link_free_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
  std::vector<simulated_read> reads_;
};

double late_after(double expected, const lateness& allowed) {
  const auto after = ringload::late_after(std::chrono::duration<double>(expected), allowed);
  return std::chrono::duration<double>(after).count();
}

}  // namespace

TEST_CASE("read_pace: no read is late before the mount was measured") {
  simulated_reads reads({0.005, 100e6});
  const std::size_t first = reads.start(4 * mib);
  CHECK(reads.late_at(first) == never);
  reads.run(5, 4 * mib, 4);
  CHECK(reads.late_at(reads.start(4 * mib)) == never);
}

TEST_CASE("read_pace: no read of a steady mount is late, at any depth and at the end") {
  for (const double latency : {0.0002, 0.005, 0.05, 0.5}) {
    for (const double bandwidth : {10e6, 100e6, 1e9, 10e9}) {
      for (const std::uint64_t depth : {1U, 4U, 16U, 64U}) {
        CAPTURE(latency);
        CAPTURE(bandwidth);
        CAPTURE(depth);
        simulated_reads reads({latency, bandwidth});
        CHECK(reads.run(200, 4 * mib, depth) == 0);
        CHECK(reads.drain() == 0);
        // A later load starts on an idle mount.
        CHECK(reads.run(40, 4 * mib, depth) == 0);
      }
    }
  }
}

TEST_CASE("read_pace: the last read is late soon after the other reads have ended") {
  const mount source = {0.005, 100e6};
  simulated_reads reads(source);
  reads.run(100, 4 * mib, 16);
  const std::size_t stalled = reads.start(4 * mib, 10);
  for (int i = 0; i < 15; ++i) reads.end_next();
  const double seconds_of_read = double(4 * mib) / source.bandwidth;
  CHECK(reads.late_at(stalled) ==
        doctest::Approx(reads.now() + late_after(seconds_of_read, steady_lateness)).epsilon(0.01));
}

namespace {

// Starts four reads, the last of which stalls, and ends the other three. Returns how long the last
// read then may take until it is late.
double time_until_late(simulated_reads& reads) {
  for (int i = 0; i < 3; ++i) reads.start(4 * mib);
  const std::size_t stalled = reads.start(4 * mib, 10);
  for (int i = 0; i < 3; ++i) reads.end_next();
  const double found = reads.late_at(stalled) - reads.now();
  reads.drain();
  return found;
}

const mount steady_mount = {0.005, 100e6};
const double seconds_of_read = double(4 * mib) / steady_mount.bandwidth;
const double time_if_steady = late_after(seconds_of_read, steady_lateness);
const double time_if_unsteady = late_after(seconds_of_read, usual_lateness);

bool is_steady(simulated_reads& reads) {
  return time_until_late(reads) < (time_if_steady + time_if_unsteady) / 2;
}

}  // namespace

TEST_CASE("read_pace: a mount is steady after 32 reads, if at most one of 20 reads was delayed") {
  // The first 8 reads measure the mount and are not counted. drain() and is_steady() end three
  // reads each.
  const auto is_steady_after = [](int counted, int delayed) {
    simulated_reads reads(steady_mount);
    reads.run(8 + counted - 6 - delayed, 4 * mib, 4);
    reads.drain();
    for (int i = 0; i < delayed; ++i) {
      // Ends after the time of a steady mount, and before the usual time.
      reads.start(4 * mib, (time_if_steady + time_if_unsteady) / 2 - seconds_of_read);
      reads.end_next();
    }
    return is_steady(reads);
  };
  CHECK(!is_steady_after(31, 0));
  CHECK(is_steady_after(32, 0));
  CHECK(!is_steady_after(39, 2));
  CHECK(is_steady_after(40, 2));
  CHECK(!is_steady_after(150, 20));
}

TEST_CASE("read_pace: if the next two reads stall, the third read is not late before them") {
  simulated_reads reads(steady_mount);
  reads.run(100, 4 * mib, 8);
  reads.drain();
  const std::size_t first = reads.start(4 * mib, 10);
  const std::size_t second = reads.start(4 * mib, 10);
  const std::size_t third = reads.start(4 * mib);
  const double time_of_read = time_if_steady - late_after(0, steady_lateness);
  CHECK(reads.late_at(second) - reads.late_at(first) ==
        doctest::Approx(time_of_read).epsilon(0.01));
  CHECK(reads.late_at(third) - reads.late_at(second) ==
        doctest::Approx(time_of_read).epsilon(0.01));
  const double third_late_at = reads.late_at(third);
  reads.end_next();
  CHECK(reads.now() < third_late_at);
  CHECK(reads.late_at(first) == doctest::Approx(reads.now() + time_if_steady).epsilon(0.01));
  CHECK(reads.late_at(second) == doctest::Approx(reads.now() + time_if_steady).epsilon(0.01));
}

TEST_CASE("read_pace: a second read that is faster than earlier reads does not make them late") {
  for (const bool is_repeated : {true, false}) {
    simulated_reads reads(steady_mount);
    reads.run(100, 4 * mib, 16);
    const std::size_t last = reads.start(4 * mib);
    reads.end_now({.is_repeated = is_repeated});
    for (int i = 0; i < 14; ++i) reads.end_next();
    // If the fast read is not repeated, all reads that started before it count as stalled.
    CHECK((reads.late_at(last) > reads.now() + seconds_of_read) == is_repeated);
  }
}

TEST_CASE("read_pace: no read is late before the time at which it must be checked") {
  simulated_reads reads(steady_mount);
  CHECK(reads.check_at(reads.start(4 * mib)) == never);
  for (const std::uint64_t depth : {1U, 4U, 16U}) {
    reads.run(100, 4 * mib, depth);
    const std::size_t stalled = reads.start(4 * mib, 10);
    double check_at = reads.check_at(stalled);
    CHECK(check_at <= reads.now() + 1.3 * time_if_steady);
    for (std::uint64_t i = 0; i < depth - 1; ++i) {
      reads.end_next();
      const double late_at = reads.late_at(stalled);
      CHECK(late_at >= check_at);
      // A timer that has expired is set again.
      if (reads.now() >= check_at) check_at = reads.check_at(stalled);
    }
    CHECK(reads.check_at(stalled) == reads.late_at(stalled));
    reads.drain();
  }
}

TEST_CASE("read_pace: reads that stall do not make a mount unsteady, needless second reads do") {
  for (const bool needless : {false, true}) {
    simulated_reads reads(steady_mount);
    reads.run(40, 4 * mib, 4);
    for (int i = 0; i < 8; ++i) {
      reads.start(4 * mib, 2 * time_if_unsteady);
      reads.drain();
    }
    for (int i = 0; needless && i < 8; ++i) reads.end_now({.was_repeated = true});
    reads.run(80, 4 * mib, 4);
    reads.drain();
    CHECK(is_steady(reads) == !needless);
  }
}

TEST_CASE("read_pace: a mount that was unsteady is steady again after some hundred steady reads") {
  simulated_reads reads(steady_mount);
  reads.run(20, 4 * mib, 4);
  for (int i = 0; i < 50; ++i) reads.end_now({.was_repeated = true});
  reads.run(100, 4 * mib, 4);
  reads.drain();
  CHECK(!is_steady(reads));
  reads.run(1000, 4 * mib, 4);
  reads.drain();
  CHECK(is_steady(reads));
}

TEST_CASE("read_pace: the end of another read that had stalled does not delay the second read") {
  simulated_reads reads({0.005, 100e6});
  reads.run(100, 4 * mib, 16);
  const std::size_t stalled = reads.start(4 * mib, 10);
  reads.end_next();
  reads.start(4 * mib, 0.1);  // Ends later than all reads that do not stall.
  reads.end_next();
  reads.start(4 * mib);
  for (int i = 0; i < 14; ++i) reads.end_next();
  const double late_at = reads.late_at(stalled);
  reads.end_next();
  CHECK(reads.now() < late_at);
  CHECK(reads.late_at(stalled) == late_at);
}

TEST_CASE("read_pace: a read is late after four times the time of the bytes before it") {
  const mount source = {0.05, 100e6};
  simulated_reads reads(source);
  reads.run(100, 4 * mib, 16);
  const double begin = reads.now();
  const std::size_t stalled = reads.start(4 * mib, 100);
  reads.run(200, 4 * mib, 16);
  const double expected = source.latency + double(16 * 4 * mib) / source.bandwidth;
  CHECK(reads.late_at(stalled) ==
        doctest::Approx(begin + late_after(expected, usual_lateness)).epsilon(0.1));
}

TEST_CASE("read_pace: a small read is not late while a large read is next") {
  simulated_reads reads({0.001, 10e6});
  reads.run(100, 4 * mib, 4);
  reads.start(4 * mib);
  const std::size_t small = reads.start(4096);
  reads.end_next();
  CHECK(reads.late_at(small) > reads.now() + double(4 * mib) / 10e6);
}

TEST_CASE("read_pace: the measurement follows a mount that becomes slower") {
  read_pace pace;
  read_pace::clock::time_point now;
  const auto time_until_late = [&](milliseconds time_of_read) {
    read_pace::started_read read;
    for (int i = 0; i < 400; ++i) {
      read = pace.start(4 * mib, 0, now);
      now += time_of_read;
      pace.completed(read, now);
    }
    read = pace.start(4 * mib, 0, now);
    return duration_cast<milliseconds>(*pace.late_at(read) - now);
  };
  CHECK(time_until_late(milliseconds(10)) == milliseconds(2 * 10 + 10));
  CHECK(time_until_late(milliseconds(100)) >= milliseconds(2 * 99 + 10));
}
