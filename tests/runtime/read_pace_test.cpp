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

using ringload::late_margin;
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
    reads_.push_back({{bytes, bytes_in_flight_, time(now_)}, link_free_ + stall});
    bytes_in_flight_ += bytes;
    return reads_.size() - 1;
  }

  // Ends the read that ends next. Returns the number of reads that were late before their end.
  int end_next() {
    const auto next = std::ranges::min_element(reads_, {}, &simulated_read::ends_at);
    const bool was_late = late_at(static_cast<std::size_t>(next - reads_.begin())) < next->ends_at;
    now_ = next->ends_at;
    bytes_in_flight_ -= next->read.bytes;
    pace.completed(next->read, time(now_));
    next->ends_at = never;
    return was_late ? 1 : 0;
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
  double late_at(std::size_t number) const {
    const auto at = pace.late_at(reads_[number].read);
    return at ? std::chrono::duration<double>(at->time_since_epoch()).count() - 1000 : never;
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

  const mount source_;
  double now_ = 0;
  double link_free_ = 0;
  std::uint64_t bytes_in_flight_ = 0;
  std::vector<simulated_read> reads_;
};

const double margin = std::chrono::duration<double>(late_margin).count();

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
        doctest::Approx(reads.now() + 4 * seconds_of_read + margin).epsilon(0.01));
}

TEST_CASE("read_pace: the end of another read that had stalled does not delay the second read") {
  simulated_reads reads({0.005, 100e6});
  reads.run(100, 4 * mib, 16);
  const std::size_t stalled = reads.start(4 * mib, 10);
  reads.end_next();
  reads.start(4 * mib, 0.2);  // Ends later than all reads that do not stall.
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
  CHECK(reads.late_at(stalled) == doctest::Approx(begin + 4 * expected + margin).epsilon(0.1));
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
  const auto late_after = [&](milliseconds time_of_read) {
    read_pace::started_read read;
    for (int i = 0; i < 400; ++i) {
      read = {4 * mib, 0, now};
      now += time_of_read;
      pace.completed(read, now);
    }
    read = {4 * mib, 0, now};
    return duration_cast<milliseconds>(*pace.late_at(read) - now);
  };
  const milliseconds fast = late_after(milliseconds(10));
  CHECK(fast == milliseconds(90));
  CHECK(late_after(milliseconds(100)) >= milliseconds(440));
}
