// SPDX-License-Identifier: Apache-2.0

#include "runtime/token_bucket.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ringload;
using clock_type = token_bucket::clock;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t rate = 20'000'000;
const clock_type::time_point start = clock_type::time_point(std::chrono::hours(1));

// Starts reads one after another, each `late` after its time. Returns when the last read starts.
clock_type::duration time_of_reads(std::uint64_t bytes, int reads, clock_type::duration late) {
  token_bucket bucket(rate);
  clock_type::time_point now = start;
  for (int i = 0; i < reads; ++i) {
    for (auto later = bucket.take(bytes, now); later; later = bucket.take(bytes, now)) {
      now = std::max(now, *later) + late;
    }
  }
  return now - start;
}

}  // namespace

TEST_CASE("token bucket: reads start at the rate, whatever their size") {
  for (const std::uint64_t bytes : {std::uint64_t{64} << 10, std::uint64_t{4} << 20}) {
    CAPTURE(bytes);
    const int reads = static_cast<int>(10 * rate / bytes);
    const auto expected =
        microseconds(bytes * static_cast<unsigned>(reads - 1) / (rate / 1'000'000));
    CHECK(duration_cast<milliseconds>(time_of_reads(bytes, reads, seconds(0))) ==
          duration_cast<milliseconds>(expected));
    // Timers that are late do not add up.
    const auto late = time_of_reads(bytes, reads, milliseconds(2));
    CHECK(late >= expected - milliseconds(1));
    CHECK(late <= expected + milliseconds(3));
  }
}

TEST_CASE("token bucket: the first read starts at once, the second waits") {
  token_bucket bucket(rate);
  CHECK(!bucket.take(rate, start));
  CHECK(bucket.take(1, start) == start + seconds(1));
  CHECK(bucket.take(1, start + milliseconds(999)) == start + seconds(1));
  CHECK(!bucket.take(1, start + seconds(1)));
}

TEST_CASE("token bucket: time without reads is not saved up") {
  token_bucket bucket(rate);
  CHECK(!bucket.take(rate, start));
  const auto later = start + seconds(100);
  CHECK(!bucket.take(rate, later));
  CHECK(bucket.take(rate, later) == later + seconds(1) - token_bucket::lateness_max);
}
