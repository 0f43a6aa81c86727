// SPDX-License-Identifier: Apache-2.0
#include "latencies.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using ringload::bench::latencies;

TEST_CASE("no times have percentiles of 0") {
  const latencies none;
  CHECK(none.percentile(0.5) == 0);
  CHECK(none.largest() == 0);
  CHECK(none.count() == 0);
}

TEST_CASE("times below 256 ns are exact") {
  latencies some;
  for (std::uint64_t i = 1; i <= 100; ++i) some.add(i);
  CHECK(some.percentile(0.5) == 50);
  CHECK(some.percentile(0.9) == 90);
  CHECK(some.percentile(0.99) == 99);
  CHECK(some.percentile(1) == 100);
  CHECK(some.percentile(0) == 1);
}

TEST_CASE("a percentile is never less than the time, and at most 1/128 more") {
  std::mt19937_64 random(7);
  latencies some;
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t time = random() >> (random() % 56 + 4);
    some.add(time);
    all.push_back(time);
  }
  std::sort(all.begin(), all.end());
  for (const double share : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * 20'000)) - 1;
    const std::uint64_t exact = all[rank];
    CHECK(some.percentile(share) >= exact);
    CHECK(some.percentile(share) - exact <= exact / 128);
  }
}

TEST_CASE("the largest time of all is counted, and is a percentile's bound") {
  latencies some;
  some.add(~std::uint64_t{0});
  some.add(1'000'000);
  CHECK(some.percentile(1) == ~std::uint64_t{0});
  CHECK(some.largest() == ~std::uint64_t{0});
  latencies one;
  one.add(1'000'001);  // The bucket ends after this value.
  CHECK(one.percentile(0.5) == 1'000'001);
}

TEST_CASE("times of several threads add up") {
  latencies a;
  latencies b;
  a.add(10);
  b.add(30);
  b.add(20);
  a.add(b);
  a.add(latencies());
  CHECK(a.count() == 3);
  CHECK(a.percentile(0.5) == 20);
  CHECK(a.largest() == 30);
}
