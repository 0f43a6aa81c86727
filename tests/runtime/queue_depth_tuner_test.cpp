// SPDX-License-Identifier: Apache-2.0

// The queue depth for simulated drives. Time is a number, and a generator produces the noise, so
// each case is reproducible.

#include "runtime/queue_depth_tuner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

using ringload::detail::queue_depth_tuner;

namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t read_bytes = 4 * mib;

// Bytes per second for a number of bytes in flight.
using drive = std::function<double(double)>;

// A drive whose throughput grows with the bytes in flight up to this number.
drive saturated_by(std::uint64_t bytes, double most = 3e9) {
  return [=](double in_flight) { return most * std::min(1.0, in_flight / double(bytes)); };
}

// A drive that becomes slower with more bytes in flight.
drive hurt_above(std::uint64_t bytes) {
  return
      [=](double in_flight) { return 1e9 * std::min(1.0, std::sqrt(double(bytes) / in_flight)); };
}

class run {
 public:
  run(drive of, double noise, unsigned seed) : of_(std::move(of)), noise_(noise), random_(seed) {}

  void now_is(drive other) { of_ = std::move(other); }

  // The noise stays constant for 32 MiB at a time.
  void read(queue_depth_tuner& tuner, std::uint64_t bytes) {
    for (std::uint64_t at = 0; at < bytes; at += read_bytes) {
      if (at % (32 * mib) == 0) level_ = std::exp(noise_ * normal_(random_));
      const double seconds = double(read_bytes) / (of_(double(tuner.bytes())) * level_);
      now_ += std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
      tuner.completed(read_bytes, now_, false);
    }
  }
  void idle(queue_depth_tuner& tuner, std::chrono::milliseconds how_long) {
    tuner.completed(read_bytes, now_, true);
    now_ += how_long;
  }
  double seconds() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }

 private:
  drive of_;
  double noise_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  double level_ = 1;
  queue_depth_tuner::clock::time_point now_;
};

constexpr std::uint64_t gib = 1024 * mib;

queue_depth_tuner of_slots() { return {8 * mib, 16 * mib, 64 * mib}; }

// Returns the depth of most of the last reads. Now and then the tuner tries another depth.
std::uint64_t settled(queue_depth_tuner& tuner, run& on, std::uint64_t after) {
  on.read(tuner, after);
  std::vector<std::uint64_t> seen;
  for (int i = 0; i < 101; ++i) {
    on.read(tuner, 32 * mib);
    seen.push_back(tuner.bytes());
  }
  std::nth_element(seen.begin(), seen.begin() + 50, seen.end());
  return seen[50];
}

}  // namespace

TEST_CASE("queue_depth_tuner: rises while throughput does, up to the maximum") {
  for (const double noise : {0.0, 0.05, 0.15}) {
    CAPTURE(noise);
    for (unsigned seed = 0; seed < 10; ++seed) {
      CAPTURE(seed);
      queue_depth_tuner tuner = of_slots();
      run on(saturated_by(256 * mib, 50e9), noise, seed);
      CHECK(settled(tuner, on, 8 * gib) == 64 * mib);
    }
  }
}

TEST_CASE(
    "queue_depth_tuner: a drive that wants no more is given less, as long as that costs nothing") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    queue_depth_tuner tuner = of_slots();
    run on(saturated_by(2 * mib), 0.02, seed);
    CHECK(settled(tuner, on, 24 * gib) == 8 * mib);
  }
}

TEST_CASE("queue_depth_tuner: stays low where more reduces throughput") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    queue_depth_tuner tuner = of_slots();
    run on(hurt_above(8 * mib), 0.05, seed);
    CHECK(settled(tuner, on, 8 * gib) == 8 * mib);
  }
}

TEST_CASE("queue_depth_tuner: settles where throughput levels off") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    queue_depth_tuner tuner = of_slots();
    run on(saturated_by(24 * mib), 0.05, seed);
    CHECK(settled(tuner, on, 8 * gib) == 32 * mib);
  }
}

TEST_CASE("queue_depth_tuner: trials cost little throughput") {
  for (const double noise : {0.0, 0.1, 0.3}) {
    CAPTURE(noise);
    double share = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      // The same noise on a drive whose throughput does not depend on the depth.
      queue_depth_tuner tuner = of_slots();
      queue_depth_tuner other = of_slots();
      run on(saturated_by(16 * mib), noise, seed);
      run even(saturated_by(1), noise, seed);
      on.read(tuner, 16 * gib);
      even.read(other, 16 * gib);
      share += even.seconds() / on.seconds() / 20;
    }
    CHECK(share > 0.95);
  }
}

TEST_CASE("queue_depth_tuner: ignores the idle time between two loads") {
  queue_depth_tuner tuner = of_slots();
  run on(saturated_by(256 * mib), 0.05, 1);
  for (int load = 0; load < 32; ++load) {
    on.read(tuner, gib / 2);
    on.idle(tuner, std::chrono::seconds(10));
  }
  CHECK(settled(tuner, on, gib) == 64 * mib);
}

TEST_CASE("queue_depth_tuner: loads too small to measure change nothing") {
  queue_depth_tuner tuner = of_slots();
  run on(saturated_by(256 * mib), 0, 1);
  for (int load = 0; load < 100; ++load) {
    on.read(tuner, 32 * mib);
    on.idle(tuner, std::chrono::milliseconds(1));
    CHECK(tuner.bytes() == 16 * mib);
  }
}

TEST_CASE("queue_depth_tuner: a trial during which the drive runs dry is given up") {
  // The limit decides how many of the 16 workers read. At 64 MiB all of them read, and the drive
  // then waits for their copies.
  queue_depth_tuner tuner = {8 * mib, 32 * mib, 64 * mib};
  run on(saturated_by(16 * mib), 0.05, 1);
  int with_all = 0;
  constexpr int reads = 4096;
  for (int i = 0; i < reads; ++i) {
    const bool all = tuner.bytes() == 64 * mib;
    on.read(tuner, read_bytes);
    if (!all || ++with_all % 16 != 0) continue;
    on.idle(tuner, std::chrono::milliseconds(1));
    CHECK(tuner.bytes() == 32 * mib);
  }
  CHECK(with_all > 0);
  CHECK(with_all < reads / 8);
}

TEST_CASE("queue_depth_tuner: follows a drive that changes") {
  queue_depth_tuner tuner = of_slots();
  run on(saturated_by(256 * mib), 0.05, 1);
  CHECK(settled(tuner, on, 8 * gib) == 64 * mib);
  on.now_is(hurt_above(8 * mib));
  CHECK(settled(tuner, on, 16 * gib) == 8 * mib);
  on.now_is(saturated_by(32 * mib));
  CHECK(settled(tuner, on, 16 * gib) == 32 * mib);
}

TEST_CASE(
    "queue_depth_tuner: where there is no room to change nothing does, and no bound is passed") {
  queue_depth_tuner one(4 * mib, 4 * mib, 4 * mib);
  run of_one(saturated_by(256 * mib), 0.1, 1);
  queue_depth_tuner odd(5 * mib, 16 * mib, 23 * mib);
  run of_odd(saturated_by(256 * mib), 0.1, 1);
  std::uint64_t most = 0;
  std::uint64_t least = 64 * mib;
  for (int i = 0; i < 2000; ++i) {
    of_one.read(one, 16 * mib);
    CHECK(one.bytes() == 4 * mib);
    if (i == 500) of_odd.now_is(hurt_above(1));
    of_odd.read(odd, 16 * mib);
    most = std::max(most, odd.bytes());
    least = std::min(least, odd.bytes());
  }
  CHECK(most == 23 * mib);
  CHECK(least == 5 * mib);
}
